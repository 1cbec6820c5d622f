"""Keeps what builds leave on the disk within a bound, for tools/test."""

import os
import pathlib
import shutil
from typing import Iterator, Tuple

# Twice what one run of `make test` from nothing leaves in Bazel's disk cache.
BOUND = 24 << 30
# Larger files are programs, which are linked again within seconds; smaller ones took a compiler's time.
PROGRAM = 4 << 20
# Such a run needs this much in all, with the environments of Python and the output of Bazel.
NEEDED = 36 << 30


def files_of(cache: pathlib.Path) -> Iterator[Tuple[float, int, str]]:
    """When each file was last used (in seconds; Linux keeps it to a day), its bytes, and its path."""
    for folder, _, names in os.walk(cache):
        for name in names:
            path = os.path.join(folder, name)
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue  # a Bazel of another clone renames a file when it is whole
            yield max(status.st_atime, status.st_mtime), status.st_size, path


def trim(cache: pathlib.Path, bound: int = BOUND) -> int:
    """Removes files until `cache` holds at most `bound` bytes: programs first, and of these and of the others what was
    not used for longest. Returns the bytes removed. Bazel 4 only ever adds to its disk cache. It builds again what it
    misses there, also while this runs."""
    kept = removed = 0
    for _, size, path in sorted(files_of(cache), key=lambda file: (file[1] >= PROGRAM, -file[0])):
        kept += size
        if kept > bound:
            pathlib.Path(path).unlink(missing_ok=True)
            removed += size
    return removed


def shortage(folder: pathlib.Path, needed: int = NEEDED) -> str:
    """A sentence, where the disk of `folder` has less room than a run from nothing needs; else nothing."""
    free = shutil.disk_usage(folder).free
    if free >= needed:
        return ""
    return (
        f"{free >> 30} GiB are free in {folder}; a run from nothing needs {needed >> 30}, and a full disk fails tests"
    )


def make_room(cache: pathlib.Path, root: pathlib.Path) -> None:
    """Trims the cache, and says so where a checkout in `root` then still has little room."""
    trim(cache)
    if short := shortage(root):
        print(f"test: {short}", flush=True)
