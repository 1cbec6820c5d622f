"""Has some of what tools/test starts step back for the rest, whose jobs wait for each other and are timed."""

import contextlib
import os
import pathlib
from typing import Iterator, List

# Where Linux has the groups in which processes share the processors, of its two kinds, and the share of one that goes
# last (a tenth of the others'). Nice values are no help: each action of Bazel is a session, as each test is, and
# sessions share alike.
SHARES = (("/sys/fs/cgroup/cpu", "cpu.shares", "100"), ("/sys/fs/cgroup", "cpu.weight", "10"))
# Joins the group whose file is the first argument, and becomes the command that the others are.
JOIN = 'echo $$ > "$0"; exec "$@"'


@contextlib.contextmanager
def group_that_steps_back(process: str) -> Iterator[List[str]]:
    """A group with the process of this number in it, and what that starts, while this lasts. Gives the words that come
    before a command which is to run in it: none where there are no groups, or they are not ours to make."""
    groups = [(pathlib.Path(root) / f"farandole-test-{os.getpid()}", *share) for root, *share in SHARES]
    words: List[str] = []
    for group, setting, value in groups:
        with contextlib.suppress(OSError):
            group.mkdir()
            (group / setting).write_text(value, encoding="ascii")
            (group / "cgroup.procs").write_text(process, encoding="ascii")
            words = ["sh", "-c", JOIN, str(group / "cgroup.procs")]
            break
    try:
        yield words
    finally:
        for group, _, _ in groups:
            with contextlib.suppress(OSError):
                for member in (group / "cgroup.procs").read_text(encoding="ascii").split():
                    (group.parent / "cgroup.procs").write_text(member, encoding="ascii")
                group.rmdir()
