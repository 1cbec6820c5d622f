"""Histories of elastic jobs (`programs/chaotic.py` writes them), and invariants that hold after every misfortune."""

import collections
import json
import pathlib
from typing import Any, Dict, List, NamedTuple, Set


class Member(NamedTuple):
    """A process in an epoch."""

    pid: int
    rank: int
    size: int


class Histories:
    """All that the processes of a job have written until now."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.lines: List[Dict[str, Any]] = []
        for path in sorted(directory.glob("*.jsonl")):
            text = path.read_text(encoding="ascii")
            # The last line of a killed process may lack its end.
            self.lines += [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def of(self, what: str) -> List[Dict[str, Any]]:
        """The lines of a kind."""
        return [line for line in self.lines if line["what"] == what]

    def last_epoch(self) -> int:
        """The greatest number; 0: none has begun."""
        return max((line["epoch"] for line in self.of("epoch")), default=0)

    def members(self, epoch: int) -> List[Member]:
        """The members that have begun an epoch, by rank."""
        found = {Member(line["pid"], line["rank"], line["size"]) for line in self.of("epoch") if line["epoch"] == epoch}
        return sorted(found, key=lambda member: member.rank)

    def steps(self, epoch: int) -> int:
        """How many steps some rank has done in an epoch."""
        return len({line["step"] for line in self.of("step") if line["epoch"] == epoch})


def check(histories: Histories, samples: int, least: int, most: int) -> None:
    """Fails unless the histories keep the promises: sums are right and equal, no epoch is mixed up, no committed state
    of a survivor is lost, and each sample is used once in a pass."""
    steps = collections.defaultdict(list)
    for line in histories.of("step"):
        steps[line["step"], line["epoch"]].append(line)
    _check_epochs(histories, least, most)
    for (number, epoch), lines in steps.items():
        where = f"step {number} in epoch {epoch}"
        for key in ("digest", "size", "pass", "position", "sums"):
            assert len({json.dumps(line[key]) for line in lines}) == 1, f"{where}: ranks differ in {key}: {lines}"
        ranks = [line["rank"] for line in lines]
        assert len(set(ranks)) == len(ranks), f"{where}: a rank did it twice: {ranks}"
        assert lines[0]["sums"][1] == lines[0]["size"], f"{where}: not all ranks are in the sum: {lines[0]}"
    # The epoch in which a step was done at last.
    final: Dict[int, int] = {}
    for number, epoch in steps:
        final[number] = max(epoch, final.get(number, 0))
    assert sorted(final) == list(range(len(final))), f"steps are missing: {sorted(final)[-1] + 1} of {len(final)}"
    _check_nothing_is_lost(histories, steps)
    _check_samples([steps[number, final[number]] for number in range(len(final))], samples)
    ends = {(line["step"], line["digest"]) for line in histories.of("done")}
    assert len(ends) == 1, f"the ranks ended differently: {ends}"


def _check_epochs(histories: Histories, least: int, most: int) -> None:
    before: Set[int] = set()
    for epoch in sorted({line["epoch"] for line in histories.of("epoch")}):
        members = histories.members(epoch)
        sizes = {member.size for member in members}
        assert len(sizes) == 1, f"epoch {epoch} has two sizes: {members}"
        (size,) = sizes
        assert least <= size <= most, f"epoch {epoch} has {size} ranks, not {least} to {most}"
        ranks = [member.rank for member in members]
        assert len(set(ranks)) == len(ranks) and len({member.pid for member in members}) == len(members), members
        pids = {member.pid for member in members}
        survivors = before & pids
        # A process that did not come as far as its first line may have been the survivor.
        if survivors and len(members) == size:
            assert members[0].pid in survivors, f"rank 0 of epoch {epoch} is a newcomer beside {survivors}: {members}"
        before = pids


def _check_nothing_is_lost(histories: Histories, steps: Dict[Any, List[Dict[str, Any]]]) -> None:
    # The last step that a process has done in an epoch is committed before it does anything else.
    last: Dict[int, Dict[int, int]] = collections.defaultdict(dict)
    for (number, epoch), lines in steps.items():
        for line in lines:
            last[epoch][line["pid"]] = max(number, last[epoch].get(line["pid"], -1))
    for line in histories.of("epoch"):
        earlier = [epoch for epoch in last if epoch < line["epoch"] and line["pid"] in last[epoch]]
        if not earlier:
            continue
        done = last[max(earlier)][line["pid"]]
        assert line["step"] > done, f"step {done} was committed by {line['pid']}, and it goes on with {line['step']}"


def _check_samples(steps: List[List[Dict[str, Any]]], samples: int) -> None:
    used: collections.Counter = collections.Counter()
    taken = number = 0
    is_known = True
    for lines in steps:
        if lines[0]["pass"] != number:
            assert taken == samples, f"pass {number} has used {taken} of {samples} samples"
            if is_known:
                assert set(used.values()) == {1} and len(used) == samples, f"pass {number}: {used.most_common(3)}"
            used.clear()
            taken, number, is_known = 0, lines[0]["pass"], True
        assert lines[0]["position"] == taken, f"a step begins at {lines[0]['position']}, not at {taken}: {lines[0]}"
        taken += lines[0]["sums"][0]
        # A rank that was killed after the sum has not written its own.
        is_known = is_known and len(lines) == lines[0]["size"]
        for line in lines:
            used.update(line["samples"])
        assert max(used.values()) == 1, f"pass {number} uses a sample again: {used.most_common(3)}"
