"""Calls to one coordinator."""

import dataclasses
import threading
import uuid
from typing import Dict, Iterator, List, Optional, Type, TypeVar, Union

from .._library import OK, failure, ffi, interruptible, lib
from ..exceptions import InvalidRequest, NotReady
from ._collectives import Collectives
from ._findings import Findings
from ._options import TLS, Environment, TokenSource
from ._timeline import Recorded, Timeline, TimelinePart
from ._types import (
    ROLES,
    Checkpoint,
    CheckpointList,
    CheckpointRequest,
    DeletedCheckpoint,
    Details,
    Job,
    JobList,
    NewToken,
    RequestedCheckpoint,
    Revoked,
    Role,
    SetQuota,
    Tenant,
    TenantList,
    Token,
    TokenList,
)
from ._wire import decode, encode, numbers

Answer = TypeVar("Answer")
Page = TypeVar("Page", JobList, CheckpointList, TenantList, TokenList)
Field = Optional[Union[int, str, bytes]]

MOST_RANKS = 65536
# As long as it takes.
FOREVER = float("inf")
MOST_MS = 2**63 - 1


class Client:
    """Speaks to one coordinator. Any thread may call its methods. Errors of all calls, each with one sentence:

    ConnectionError: the coordinator was unreachable or silent as long as `patience` goes. PermissionError: the token is
    not known or does not allow it, or TLS does not prove one side to the other. InvalidRequest (a ValueError): a field is
    out of bounds. LookupError: there is no such job, rank or host. QuotaError: a stated maximum is reached. NotReady: it
    is not the time for it, or the client is closed. NotImplementedError: the coordinator is of another version.
    """

    def __init__(
        self,
        address: str,
        token: Union[TokenSource, str, None] = None,
        tls: Optional[TLS] = None,
        patience: float = 10.0,
        coordinator_users: str = "",
    ) -> None:
        """Nothing is sent before the first call.

        `address` is HOST:PORT. `token`: a source, or a token that never changes. Without `tls` the
        coordinator is on this host: elsewhere the token would travel in the clear. `patience`: for how many seconds a
        call is made again while the coordinator is away, or has no room and says when to retry; an attempt waits 10 s
        for its answer. `coordinator_users`, without `tls`: users of this host, besides root and the program's own, whose
        programs may have the coordinator's port; names or numbers with commas between them, "*" for anyone, "" for
        farandole.

        InvalidRequest, LookupError, PermissionError: the address or a file cannot be used.
        """
        self.address = address
        self._token = TokenSource(lambda: token) if isinstance(token, str) else token
        self._patience = patience
        given = (address, *dataclasses.astuple(tls or TLS()), coordinator_users)
        texts = [ffi.new("char[]", text.encode()) for text in given]
        options = ffi.new("farandole_client_options*")
        options.struct_bytes, options.use_tls = ffi.sizeof("farandole_client_options"), tls is not None
        (
            options.address,
            options.ca_file,
            options.cert_file,
            options.key_file,
            options.server_name,
            options.coordinator_users,
        ) = texts
        made = ffi.new("farandole_client**")
        code = lib.farandole_client_open(options, made)
        if code != OK:
            raise failure(code)
        # Closed when nothing refers to it any more, so a call keeps it.
        self._connection = ffi.gc(made[0], lib.farandole_client_close)

    @classmethod
    def from_environment(cls, patience: float = 10.0) -> "Client":
        """The client for FARANDOLE_COORDINATOR, FARANDOLE_TOKEN_FILE, FARANDOLE_CA_FILE, FARANDOLE_CERT_FILE and
        FARANDOLE_KEY_FILE, as workers have them. InvalidRequest: the first one is not set."""
        read = Environment.read()
        return cls(read.address, read.token, read.tls, patience, read.coordinator_users)

    def close(self) -> None:
        """Closes the connection, when calls that are under way have ended. Later calls raise NotReady."""
        self._connection = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def jobs(self) -> List[Job]:
        """The jobs that the token may see, the newest first."""
        return list(self.each_job())

    def each_job(self, page_size: int = 0) -> Iterator[Job]:
        """As jobs(), in pages of `page_size` jobs (0 and more than 1,000: 1,000), each of which is asked for when the
        one before it is used up. Jobs that start meanwhile are left out; all that stay are given once."""
        request: Dict[int, Field] = {80: _page_size(page_size)}
        for page in self._pages(JobList, "MonitorService/ListJobs", request, 81, "refused to list its jobs"):
            yield from page.jobs

    def job(self, name: str, tenant: str = "") -> Details:
        """One job with its workers and its history. `tenant` "" is the token's own; another one's jobs need a token
        of a role of the cluster, here as in all calls. LookupError: the tenant has no such job."""
        return self._job(name, tenant, self._patience)

    def checkpoints(self, name: str, tenant: str = "") -> List[Checkpoint]:
        """A job's catalogue, the oldest first. LookupError: the tenant has no such job."""
        return list(self.each_checkpoint(name, tenant))

    def each_checkpoint(self, name: str, tenant: str = "", page_size: int = 0) -> Iterator[Checkpoint]:
        """As checkpoints(), in pages of `page_size` checkpoints (0 and more than 1,000: 1,000), each of which is asked
        for when the one before it is used up. All that stay are given once, and those that are committed meanwhile."""
        refusal = f"refused to list the checkpoints of {_show(name, tenant)}"
        request: Dict[int, Field] = {1: name, 2: tenant, 80: _page_size(page_size)}
        for page in self._pages(CheckpointList, "MonitorService/ListCheckpoints", request, 81, refusal):
            yield from page.checkpoints

    def delete_checkpoint(self, name: str, checkpoint: str, step: int, tenant: str = "") -> Checkpoint:
        """Takes a checkpoint out of a job's catalogue, by its name and step, and gives it as it was there. Its file
        stays, at `path` of its host. Needs a token of an operator. LookupError: there is no such job or checkpoint."""
        if not 0 <= step < 1 << 63:
            raise InvalidRequest(f"step {step} of checkpoint {checkpoint} is not from 0 to {(1 << 63) - 1}")
        request: Dict[int, Field] = {1: tenant, 2: name, 3: checkpoint, 4: step, 5: _new_key()}
        refusal = f"refused to delete a checkpoint of {_show(name, tenant)}"
        answer = self._call("AdminService/DeleteCheckpoint", request, refusal, self._patience)
        return self._read(DeletedCheckpoint, answer).checkpoint

    def request_checkpoint(self, name: str, tenant: str = "") -> CheckpointRequest:
        """Asks a job's program to write a checkpoint soon, where it calls `checkpoint_requested()`. A call joins a request
        that is pending. `job(name).checkpoint_request` tells what comes of it. Needs a token of an operator, or that of
        the launcher who started it. LookupError: the tenant has no such job. NotReady: it has ended."""
        request: Dict[int, Field] = {1: tenant, 2: name, 3: _new_key()}
        refusal = f"refused to ask {_show(name, tenant)} for a checkpoint"
        answer = self._call("AdminService/RequestCheckpoint", request, refusal, self._patience)
        return self._read(RequestedCheckpoint, answer).request

    def watch(self, name: str, tenant: str = "", interval: float = 1.0) -> Iterator[Details]:
        """Follows a job: yields it at once, and then whenever its state, reason, epoch, size, stall, history or its
        workers' states have changed, until it has ended. Rates and loads alone are no change.

        A coordinator that is away, as while it is restarted, does not end it: it goes on. It asks every `interval`
        seconds, since the service has no stream.
        """
        last: Optional[Details] = None
        never = threading.Event()
        while last is None or not last.job.has_ended:
            found = self._job(name, tenant, FOREVER)
            if last is None or _without_rates(found) != _without_rates(last):
                last = found
                yield found
            else:
                never.wait(interval)

    def abort(self, name: str, reason: str, tenant: str = "") -> None:
        """Ends a job. `reason` is one sentence of at most 1,024 bytes; it reaches every worker. Needs a token of
        an operator, or that of the launcher who started it. LookupError: the tenant has no such job."""
        request: Dict[int, Field] = {1: tenant, 2: name, 3: reason, 4: _new_key()}
        self._call("AdminService/AbortJob", request, f"refused to end {_show(name, tenant)}", self._patience)

    def delete(self, name: str, tenant: str = "") -> None:
        """Deletes a job that has ended, with its history and its catalogue of checkpoints; their files stay. Needs a
        token of an operator. LookupError: the tenant has no such job. NotReady: it forms or runs."""
        request: Dict[int, Field] = {1: tenant, 2: name, 3: _new_key()}
        self._call("AdminService/DeleteJob", request, f"refused to delete {_show(name, tenant)}", self._patience)

    def drain_rank(self, name: str, rank: int, reason: str = "", tenant: str = "") -> List[int]:
        """Asks the worker of a rank of an elastic job to leave at the program's next commit. Returns the ranks that
        were asked. LookupError: the job has no such rank. NotReady: it is not elastic, no epoch runs, or too few would
        remain."""
        if not 0 <= rank < MOST_RANKS:
            raise InvalidRequest(f"rank {rank} of {_show(name, tenant)} is not from 0 to {MOST_RANKS - 1}")
        return self._drain(name, tenant, {3: rank}, reason)

    def drain_host(self, name: str, hostname: str, reason: str = "", tenant: str = "") -> List[int]:
        """As drain_rank, for all workers of a host, by `Worker.member.hostname`."""
        return self._drain(name, tenant, {4: hostname}, reason)

    def create_tenant(self, name: str, max_jobs: int = 0, max_workers: int = 0) -> str:
        """Makes a tenant, and gives its first token, of which the coordinator keeps the hash only.

        `name` is 1 to 64 bytes of [a-z0-9-]. `max_jobs` and `max_workers`: the most jobs that it may run at a time, and
        the most workers in them together; 0 is the default of 64 and 4,096. FileExistsError: there is one of this name.
        """
        _check_limits(name, max_jobs=max_jobs, max_workers=max_workers)
        request: Dict[int, Field] = {1: name, 2: max_jobs, 3: max_workers, 4: _new_key()}
        answer = self._call("AdminService/CreateTenant", request, f"refused to make tenant {name}", self._patience)
        return self._read(NewToken, answer).text

    def tenants(self) -> List[Tenant]:
        """The tenants that the token may see, by name, with their quotas and what they use of them."""
        return list(self.each_tenant())

    def each_tenant(self, page_size: int = 0) -> Iterator[Tenant]:
        """As tenants(), in pages of `page_size` tenants (0 and more than 1,000: 1,000), each of which is asked for when
        the one before it is used up."""
        request: Dict[int, Field] = {1: _page_size(page_size)}
        for page in self._pages(TenantList, "AccessService/ListTenants", request, 2, "refused to list its tenants"):
            yield from page.tenants

    def set_quota(
        self,
        tenant: str,
        max_jobs: Optional[int] = None,
        max_workers: Optional[int] = None,
        cohort: Optional[str] = None,
        weight: Optional[int] = None,
        borrow: Optional[int] = None,
        max_store_bytes: Optional[int] = None,
    ) -> Tenant:
        """Sets a tenant's quota, and gives the tenant as it is then, but for `created` and `tokens`. None leaves a part
        as it is; 0 is its default, and the cohort "" is none. Jobs that run go on in any case. Needs a token of root.
        LookupError: there is no such tenant."""
        _check_limits(tenant, max_jobs=max_jobs, max_workers=max_workers, weight=weight, borrow=borrow)
        _check_limits(tenant, 63, max_store_bytes=max_store_bytes)
        request: Dict[int, Field] = {
            1: tenant,
            2: max_jobs,
            3: max_workers,
            # As bytes, which are sent if they are empty, too.
            4: None if cohort is None else cohort.encode(),
            5: weight,
            6: borrow,
            7: _new_key(),
            8: max_store_bytes,
        }
        refusal = f"refused to set the quota of tenant {tenant}"
        return self._read(SetQuota, self._call("AdminService/SetQuota", request, refusal, self._patience)).tenant

    def start_timeline(self, name: str, mark_cycles: bool = False, tenant: str = "") -> str:
        """Has all workers of a job record what their tensors wait for, also those of later epochs, and gives a sentence
        that says so. `mark_cycles`: also the beginning of each batch. A new recording replaces the last one. Needs a
        token of an operator. LookupError: the tenant has no such job. NotReady: it has ended, or records already."""
        return self._record(name, tenant, True, mark_cycles)

    def stop_timeline(self, name: str, tenant: str = "") -> str:
        """Ends the recording, with each rank's last events, and gives a sentence that says so. Needs a token of an
        operator. LookupError: the tenant has no such job. NotReady: it records nothing."""
        return self._record(name, tenant, False, False)

    def timeline(self, name: str, tenant: str = "") -> Timeline:
        """The events that a job has recorded so far, or recorded last, at most 32 MiB. They can be read for an hour after
        the job's end. LookupError: the tenant has no such job, or it has recorded nothing."""
        refusal = f"refused to give the timeline of {_show(name, tenant)}"
        parts: List[TimelinePart] = []
        request: Dict[int, Field] = {1: name, 2: tenant, 3: 0}
        recording = 0
        while True:
            answer = self._read(Timeline, self._call("MonitorService/GetTimeline", request, refusal, self._patience))
            if recording not in (0, answer.recording):
                # A new recording has replaced it meanwhile.
                recording, request[3] = 0, 0
                parts.clear()
                continue
            recording, request[3] = answer.recording, answer.next
            parts += answer.parts
            if not answer.next:
                return dataclasses.replace(answer, parts=parts)

    def diagnose(self, name: str, stacks: bool = True, last_stall: bool = False, tenant: str = "") -> Findings:
        """Asks the workers of a job what they do, which takes 4 s at most: their latest collectives, who waits for whom
        and, with `stacks`, the stacks of their programs; those who ask within 4 s share an answer. Of a job that has ended
        it gives what they did last.
        `last_stall`: as the coordinator has asked by itself when the job stalled last.

        LookupError: the tenant has no such job, or it has not stalled. NotReady: no rank answered when it stalled.
        QuotaError: several such calls of the job wait already.
        """
        request: Dict[int, Field] = {1: name, 2: tenant, 3: int(stacks), 4: int(last_stall)}
        refusal = f"refused to diagnose {_show(name, tenant)}"
        return self._read(Findings, self._call("MonitorService/Diagnose", request, refusal, self._patience))

    def collectives(self, name: str, tenant: str = "") -> Collectives:
        """Asks the workers of a job what its tensors cost since the epoch began, which takes 4 s at most; those who ask
        within 4 s share an answer. Of a job that has ended it gives the last answer.

        LookupError: the tenant has no such job, or nothing is known of its tensors. QuotaError: too many calls wait
        already.
        """
        request: Dict[int, Field] = {1: name, 2: tenant}
        refusal = f"refused to ask for the collectives of {_show(name, tenant)}"
        return self._read(Collectives, self._call("MonitorService/SurveyCollectives", request, refusal, self._patience))

    def tokens(self, tenant: str = "") -> List[Token]:
        """A tenant's tokens, by time; with "", those of all tenants that the token may see. Needs the role admin, as the
        other calls about tokens do."""
        return list(self.each_token(tenant))

    def each_token(self, tenant: str = "", page_size: int = 0) -> Iterator[Token]:
        """As tokens(), in pages of `page_size` tokens (0 and more than 1,000: 1,000), each of which is asked for when
        the one before it is used up."""
        request: Dict[int, Field] = {1: tenant, 2: _page_size(page_size)}
        for page in self._pages(TokenList, "AccessService/ListTokens", request, 3, "refused to list its tokens"):
            yield from page.tokens

    def create_token(self, role: Role, tenant: str = "", label: str = "", lifetime: float = 0.0) -> NewToken:
        """Makes a token of a tenant, by default the own one, of which the coordinator keeps the hash only.

        `lifetime`: seconds, at most 90 days; 0 is 30 days. PermissionError: the role is above the own one. LookupError:
        there is no such tenant. QuotaError: the tenant has too many tokens.
        """
        if role not in ROLES:
            raise InvalidRequest(f"{role} is no role of a token")
        request: Dict[int, Field] = {
            1: tenant,
            2: ROLES.index(role) + 1,
            3: label,
            4: _seconds("lifetime", lifetime),
            5: _new_key(),
        }
        answer = self._call("AccessService/CreateToken", request, "refused to make a token", self._patience)
        return self._read(NewToken, answer)

    def rotate_token(self, token_id: str, overlap: float = 0.0) -> NewToken:
        """Gives a token a new text, and lets the old one be good for `overlap` seconds more, at most 7 days. Runs that
        were launched with it go on. LookupError: there is no such token. NotReady: it was revoked."""
        request: Dict[int, Field] = {1: token_id, 2: _seconds("overlap", overlap), 3: _new_key()}
        answer = self._call("AccessService/RotateToken", request, f"refused to rotate token {token_id}", self._patience)
        return self._read(NewToken, answer)

    def revoke_token(self, token_id: str, and_made_with_it: bool = False) -> int:
        """Ends a token, and within a second its streams and the runs that were launched with it. `and_made_with_it`: also
        the tokens that were made or rotated with it, and with those. Returns how many tokens have ended. LookupError:
        there is no such token."""
        request: Dict[int, Field] = {1: token_id, 2: int(and_made_with_it), 4: _new_key()}
        answer = self._call("AccessService/RevokeToken", request, f"refused to revoke token {token_id}", self._patience)
        return self._read(Revoked, answer).ended

    def _job(self, name: str, tenant: str, patience: float) -> Details:
        refusal = f"refused to show {_show(name, tenant)}"
        return self._read(Details, self._call("MonitorService/GetJob", {1: name, 2: tenant}, refusal, patience))

    def _record(self, name: str, tenant: str, is_on: bool, mark_cycles: bool) -> str:
        request: Dict[int, Field] = {1: tenant, 2: name, 3: int(is_on), 4: int(mark_cycles), 5: _new_key()}
        refusal = f"refused to {'start' if is_on else 'stop'} a timeline of {_show(name, tenant)}"
        answer = self._call("AdminService/RecordTimeline", request, refusal, self._patience)
        return self._read(Recorded, answer).sentence

    def _drain(self, name: str, tenant: str, what: Dict[int, Field], reason: str) -> List[int]:
        request = {1: tenant, 2: name, **what, 5: reason, 6: _new_key()}
        refusal = f"refused to drain workers of {_show(name, tenant)}"
        return numbers(self._call("AdminService/DrainWorkers", request, refusal, self._patience), 1)

    def _pages(
        self, kind: Type[Page], method: str, request: Dict[int, Field], token_field: int, refusal: str
    ) -> Iterator[Page]:
        """The pages of a list, each asked for when the one before is used up. `token_field`: of the request."""
        while True:
            page = self._read(kind, self._call(method, request, refusal, self._patience))
            yield page
            if not page.next_page:
                return
            request[token_field] = page.next_page

    def _read(self, kind: Type[Answer], answer: bytes) -> Answer:
        try:
            return decode(kind, answer)
        except ValueError as error:
            raise NotImplementedError(
                f"coordinator {self.address} answered with something else ({error}): it is another version, or another program"
            ) from None

    def _call(self, method: str, message: Dict[int, Field], refusal: str, patience: float) -> bytes:
        connection = self._connection
        if connection is None:
            raise NotReady(f"the client of coordinator {self.address} is closed")
        encoded = encode(message)
        token = self._token.get(self.address) if self._token is not None else ""
        texts = (method, token, self._token.origin if self._token is not None else "", refusal)
        kept = [ffi.new("char[]", text.encode()) for text in texts]
        request = ffi.new("farandole_client_request*")
        request.struct_bytes = ffi.sizeof("farandole_client_request")
        request.method, request.token, request.token_origin, request.refusal = kept
        buffer = ffi.from_buffer(encoded)
        request.message, request.message_bytes = buffer, len(encoded)
        request.patience_ms = MOST_MS if patience == FOREVER else int(patience * 1000)
        answer, size = ffi.new("void**"), ffi.new("int64_t*")
        interruptible(lib.farandole_client_call, connection, request, answer, size)
        return bytes(ffi.buffer(answer[0], size[0]))


def _check_limits(tenant: str, bits: int = 32, **limits: Optional[int]) -> None:
    for limit, value in limits.items():
        if value is not None and not 0 <= value < 1 << bits:
            raise InvalidRequest(f"{limit} of tenant {tenant} is {value}, and not from 0 to {(1 << bits) - 1}")


def _seconds(what: str, seconds: float) -> int:
    if 0 <= seconds < 1 << 32:
        return int(seconds)
    raise InvalidRequest(f"{what} of a token is {seconds} s, and not from 0 to {(1 << 32) - 1}")


def _show(name: str, tenant: str) -> str:
    return f"job {name} of tenant {tenant}" if tenant else f"job {name}"


def _page_size(size: int) -> int:
    if size < 0:
        raise InvalidRequest(
            f"a page of {size} is not possible: it has at least 1, and 0 is the greatest that there is"
        )
    # The service bounds it itself.
    return min(size, (1 << 32) - 1)


def _new_key() -> str:
    """Of a change, so that a repeated call changes nothing twice."""
    return uuid.uuid4().hex


def _without_rates(details: Details) -> "tuple[object, ...]":
    """The part that a watch compares."""
    job = dataclasses.replace(details.job, batches_per_second=0.0, steps_per_second=None, gpus=None)
    return job, details.history, [(worker.rank, worker.state, worker.member.incarnation) for worker in details.workers]
