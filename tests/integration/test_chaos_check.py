"""`chaos.check` finds histories that break a promise."""

import json
import pathlib
from typing import Any, Callable, Dict, List

import chaos
import pytest

SAMPLES = 8
Lines = Dict[int, List[Dict[str, Any]]]


def epoch_line(pid: int, epoch: int, rank: int, size: int, step: int) -> Dict[str, Any]:
    return {"what": "epoch", "pid": pid, "epoch": epoch, "rank": rank, "size": size, "step": step}


def step_line(pid: int, epoch: int, rank: int, size: int, step: int, position: int, taken: int) -> Dict[str, Any]:
    mine = list(range(position + rank * taken // size, position + (rank + 1) * taken // size))
    line = {"what": "step", "pid": pid, "epoch": epoch, "rank": rank, "size": size, "step": step, "pass": 0}
    return {**line, "position": position, "samples": mine, "sums": [taken, size], "digest": step}


def whole() -> Lines:
    """Two steps of 10 and 11; then 11 dies, and 10 uses the rest with newcomer 12; 10 goes on alone to the next pass."""
    lines: Lines = {10: [], 11: [], 12: []}
    for rank, pid in enumerate((10, 11)):
        lines[pid].append(epoch_line(pid, 1, rank, 2, 0))
        lines[pid] += [step_line(pid, 1, rank, 2, step, 2 * step, 2) for step in range(2)]
    for rank, pid in enumerate((10, 12)):
        lines[pid].append(epoch_line(pid, 2, rank, 2, 2))
        lines[pid] += [step_line(pid, 2, rank, 2, step, 2 * step, 2) for step in (2, 3)]
        lines[pid].append({**step_line(pid, 2, rank, 2, 4, 0, 2), "pass": 1})
        lines[pid].append({"what": "done", "pid": pid, "epoch": 2, "rank": rank, "step": 5, "digest": 4})
    return lines


def read(lines: Lines, directory: pathlib.Path) -> chaos.Histories:
    for pid, own in lines.items():
        text = "".join(json.dumps({"at": 0.0, **line}) + "\n" for line in own)
        (directory / f"{pid}.jsonl").write_text(text, encoding="ascii")
    return chaos.Histories(directory)


def test_a_whole_history_passes(tmp_path: pathlib.Path) -> None:
    chaos.check(read(whole(), tmp_path), SAMPLES, 1, 4)


def spoil(pid: int, index: int, **fields: Any) -> Callable[[Lines], None]:
    return lambda lines: lines[pid][index].update(fields)


@pytest.mark.parametrize(
    "damage, words",
    (
        (spoil(11, 1, digest=99), "ranks differ in digest"),
        (lambda lines: [lines[pid][1].update(sums=[2, 1]) for pid in (10, 11)], "not all ranks are in the sum"),
        (spoil(12, 1, rank=0), "a rank did it twice"),
        (spoil(12, 0, size=3), "two sizes"),
        (lambda lines: [lines[pid][0].update(size=9) for pid in (10, 11)], "not 1 to 4"),
        (lambda lines: [lines[10][3].update(rank=1), lines[12][0].update(rank=0)], "is a newcomer"),
        (lambda lines: [lines[pid].pop(index) for pid, index in ((10, 2), (11, 2))], "steps are missing"),
        (spoil(10, 3, step=1), "was committed"),
        (spoil(12, 1, samples=[4]), "uses a sample again"),
        (lambda lines: [lines[pid][1].update(position=5) for pid in (10, 11)], "a step begins at"),
        (lambda lines: [lines[pid][index].update({"pass": 1}) for pid, index in ((10, 5), (12, 2))], "has used 6 of 8"),
        (spoil(12, 4, digest=5), "ended differently"),
    ),
)
def test_what_breaks_a_promise_is_found(damage: Callable[[Lines], Any], words: str, tmp_path: pathlib.Path) -> None:
    lines = whole()
    damage(lines)
    with pytest.raises(AssertionError, match=words):
        chaos.check(read(lines, tmp_path), SAMPLES, 1, 4)
