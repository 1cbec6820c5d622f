"""The text of docs/faults.md."""

import re
from typing import Dict, List, NamedTuple


class Seen(NamedTuple):
    """A row of docs/faults.md."""

    subject: str
    fault: str
    said: str
    by: str
    seconds: float
    code: str


def plain(sentence: str) -> str:
    """Without what differs from run to run."""
    sentence = re.sub(r"\b(pid|worker) \d+", r"\1 N", sentence)
    sentence = re.sub(r"10\.213\.\d+\.", "10.213.N.", sentence)
    return re.sub(r"\d+(\.\d+)? s\b", "S s", sentence).replace("|", "\\|")


def page_of(seen: Dict[str, List[Seen]]) -> str:
    """The text of docs/faults.md."""
    lines = [
        "# What happens when something fails",
        "",
        "For users and operators who want to know what they see when a part of a job fails.",
        "",
        "Written by `tests/integration/faults/test_faults.py --write-faults`, from real processes: four workers, started by `farandole",
        "run` with default settings unless the row says otherwise. The workers are on two hosts (network namespaces,",
        "each with its own sshd; ranks 0 and 1 on the first, 2 and 3 on the second). Rows about the coordinator or a",
        "wall clock use one host, and the row about a full disk uses one worker.",
        "Each time runs from the fault until the last rank has printed its message; the table has the slowest round,",
        "on a machine with two cores. It includes the time in which a Python program prints its exception.",
        "The test checks after each row that no process on any host, no file and no shared memory segment is left.",
        "",
        "| failed part | fault | reported by | message | within | exit code | rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    for rows in seen.values():
        slowest = max(rows, key=lambda row: row.seconds)
        lines.append(
            f"| {slowest.subject} | {slowest.fault} | {slowest.by} | {slowest.said} | {slowest.seconds:.2f} s | {slowest.code} | {len(rows)} |"
        )
    return "\n".join(lines) + "\n"
