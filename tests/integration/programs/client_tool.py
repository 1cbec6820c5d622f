"""Makes one call of the control plane's client, and prints what it gives as JSON: the Python row of the tests. As
tests/cpp/programs/client_tool.cc, but that an error has its kind."""

import argparse
import datetime
import json
import sys
from typing import Any, Callable, Dict, Iterator, Optional

from farandole.client import (
    TLS,
    Checkpoint,
    CheckpointRequest,
    Client,
    Collectives,
    Details,
    Event,
    Findings,
    Flight,
    Job,
    Role,
    Tenant,
    Timeline,
    TokenSource,
    Worker,
)
from farandole.client._options import Environment


def milliseconds(time: Optional[datetime.datetime]) -> int:
    return 0 if time is None else round(time.timestamp() * 1000)


def told(value: Any) -> Any:
    """A result for JSON."""
    if isinstance(value, list):
        return [told(each) for each in value]
    fields: Dict[str, Any] = {}
    if isinstance(value, Job):
        names = ("tenant", "name", "reason", "epoch", "size", "wanted_size", "last_stall", "blocker", "has_ended")
        bounds = value.elastic and [value.elastic.min_size, value.elastic.max_size, value.resets]
        fields = {"state": value.state.value, "created_ms": milliseconds(value.created), "elastic": bounds}
        fields["has_stall_time"] = value.last_stall_at is not None
        fields["queue"] = value.queue and [value.queue.position, value.queue.length, value.queue.reason]
    elif isinstance(value, Worker):
        names = ("rank", "state", "missed")
        fields = {name: getattr(value.member, name) for name in ("incarnation", "host_id", "hostname", "pid")}
        fields["is_fresh"] = value.silence < 60
    elif isinstance(value, Event):
        names = ("sentence",)
        fields = {"at_ms": milliseconds(value.at)}
    elif isinstance(value, Checkpoint):
        names = ("name", "step", "fencing_token", "path", "size_bytes", "sha256", "epoch", "rank")
        fields = {"committed_ms": milliseconds(value.committed)}
    elif isinstance(value, Details):
        request = value.checkpoint_request and told(value.checkpoint_request)
        parts = {"job": value.job, "workers": value.workers, "history": value.history}
        return {**{name: told(part) for name, part in parts.items()}, "checkpoint_request": request}
    elif isinstance(value, CheckpointRequest):
        names = ("number", "asker", "times", "is_pending", "failure")
        fields = {"since_ms": milliseconds(value.since), "is_told": value.told is not None}
        fields["checkpoint"] = value.checkpoint and told(value.checkpoint)
    elif isinstance(value, Tenant):
        names = ("name", "max_jobs", "max_workers", "cohort", "weight", "borrow", "max_store_bytes")
        names += ("tokens", "jobs", "workers", "queued_jobs", "queued_workers")
        fields = {"created_ms": milliseconds(value.created), "uses_store": value.store_bytes > 0}
    elif isinstance(value, Timeline):
        names = ("recording", "is_on", "dropped", "forgotten")
        fields = {"started_ms": milliseconds(value.started), "events": sum(part.events for part in value.parts)}
        fields["ranks"] = sorted({part.rank for part in value.parts})
        fields["hosts"] = sorted({part.hostname for part in value.parts})
        fields["numbers"] = [part.number for part in value.parts]
    elif isinstance(value, Collectives):
        return collectives(value)
    elif isinstance(value, Findings):
        return findings(value)
    else:
        return value
    return {**fields, **{name: getattr(value, name) for name in names}}


def findings(value: Findings) -> Dict[str, Any]:
    waits = [
        [each.name, each.operation, each.group, each.ordinal, each.waiting, each.missing, each.waited > 0]
        for each in value.waits
    ]
    stacks = [[each.ranks, each.is_dominant, [frame.function for frame in each.frames]] for each in value.stacks]
    ranks = []
    for each in value.ranks:
        evidence = each.evidence
        flight = evidence and evidence.flight
        told_of = {"rank": each.rank, "silence": each.silence, "last": flight and last_of(flight)}
        if evidence:
            told_of["threads"] = [[thread.name, len(thread.frames) > 0] for thread in evidence.threads]
            told_of["settings"] = evidence.settings
            told_of["kernel_threads"] = len(evidence.kernel_threads)
            told_of["about_stacks"] = evidence.about_stacks
        ranks.append(told_of)
    fields = {"sentence": value.sentence, "epoch": value.epoch, "size": value.size, "ranks": ranks}
    return {**fields, "waits": waits, "stacks": stacks, "stalled_ms": milliseconds(value.stalled)}


def collectives(value: Collectives) -> Dict[str, Any]:
    costs = [
        [
            each.name,
            each.operation,
            each.size_bytes,
            each.count,
            each.waited > each.mean_wait > 0,
            each.wait_percent > 0,
        ]
        + [[[last.rank, last.times > 0] for last in each.last], each.least_wait_rank]
        for each in sorted(value.costs, key=lambda cost: cost.name)
    ]
    fields = {"epoch": value.epoch, "size": value.size, "answered": value.answered, "found": value.found}
    fields["silent"] = [[each.rank, each.silence] for each in value.silent]
    return {**fields, "costs": costs, "is_over": value.is_over, "asked_ms": milliseconds(value.asked)}


def last_of(flight: Flight) -> "list[Any]":
    """A rank's last submission."""
    last = flight.submissions[-1]
    kind = [last.progress.value, last.operation, last.dtype, last.size_bytes, last.ordinal]
    return [flight.rank, flight.size, flight.pid, flight.name_of(last), *kind, last.age > 0]


def set_quota(client: Client, tenant: str, *parts: str) -> Tenant:
    """`parts` are NAME=VALUE."""
    values: Dict[str, Any] = {}
    for part in parts:
        name, _, value = part.partition("=")
        values[name] = value if name == "cohort" else int(value)
    return client.set_quota(tenant, **values)


def timeline(client: Client, name: str, path: str) -> Timeline:
    """Its trace is written to the file."""
    found = client.timeline(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(found.trace())
    return found


def follow(client: Client, name: str) -> Iterator[Details]:
    while True:
        try:
            yield from client.watch(name, interval=0.05)
            return
        except LookupError:
            continue  # its workers have not joined yet


def walk(client: Client, kind: str, page_size: str, gate: str, *name: str) -> Iterator[Any]:
    """The names (or the steps) of a list, page by page; behind its first page it waits for a writer of the FIFO `gate`."""
    size = int(page_size)
    lists: Dict[str, Callable[[], Iterator[Any]]] = {
        "jobs": lambda: (job.name for job in client.each_job(page_size=size)),
        "checkpoints": lambda: (row.step for row in client.each_checkpoint(*name, page_size=size)),
        "tenants": lambda: (tenant.name for tenant in client.each_tenant(page_size=size)),
        "tokens": lambda: (token.label for token in client.each_token(page_size=size)),
    }
    for at, row in enumerate(lists[kind]()):
        yield row
        if at == size - 1:
            with open(gate, encoding="utf-8") as opened:
                opened.read()


def run(client: Client, command: str, words: "list[str]") -> Iterator[Any]:
    """The results of a command."""
    if command == "watch":
        yield from follow(client, *words)
    elif command == "abort":
        client.abort(*words)
    elif command == "delete":
        client.delete(*words)
    elif command == "drain-rank":
        yield client.drain_rank(words[0], int(words[1]), words[2])
    elif command == "drain-host":
        yield client.drain_host(*words)
    elif command == "create-tenant":
        yield client.create_tenant(words[0], 2, 8)
    elif command == "create-token":
        made = client.create_token(Role(words[0]), words[1], words[2], float(words[3]))
        yield [made.text, made.about.id]
    elif command == "rotate-token":
        yield client.rotate_token(words[0], float(words[1])).text
    elif command == "revoke-token":
        yield client.revoke_token(words[0], words[1] == "all")
    elif command == "delete-checkpoint":
        yield client.delete_checkpoint(words[0], words[1], int(words[2]))
    elif command == "request-checkpoint":
        yield client.request_checkpoint(*words)
    elif command == "set-quota":
        yield set_quota(client, *words)
    elif command == "start-timeline":
        yield client.start_timeline(words[0], words[1:] == ["cycles"])
    elif command == "timeline":
        yield timeline(client, *words)
    elif command == "diagnose":
        yield client.diagnose(words[0], "no-stacks" not in words, "last-stall" in words)
    elif command == "walk":
        yield from walk(client, *words)
    elif command == "tokens":
        yield [[token.id, token.role.value, token.label, token.ended != ""] for token in client.tokens(*words)]
    else:
        calls: Dict[str, Callable[..., Any]] = {
            "jobs": client.jobs,
            "job": client.job,
            "checkpoints": client.checkpoints,
            "collectives": client.collectives,
            "tenants": client.tenants,
            "stop-timeline": client.stop_timeline,
        }
        yield calls[command](*words)


def client_of(options: argparse.Namespace) -> Client:
    read = Environment.read()
    token = TokenSource(lambda: str(options.token)) if options.token else read.token
    tls = read.tls
    if options.server_name or options.cert or options.key:
        tls = TLS(tls.ca_file if tls else "", options.cert, options.key, options.server_name)
    patience = options.patience / 1000
    return Client(read.address, None if options.token == "none" else token, tls, patience)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--patience", type=int, default=10_000)
    for name in ("--token", "--server-name", "--cert", "--key"):
        parser.add_argument(name, default="")
    parser.add_argument("command")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    try:
        with client_of(options) as client:
            for result in run(client, options.command, options.words):
                print(json.dumps(told(result)), flush=True)
    except KeyboardInterrupt:
        print(json.dumps({"error": "KeyboardInterrupt", "sentence": ""}))
        return 1
    except Exception as error:  # pylint: disable=broad-except; the test looks at it
        kinds = [kind.__name__ for kind in type(error).__mro__]
        print(json.dumps({"error": kinds, "sentence": str(error)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
