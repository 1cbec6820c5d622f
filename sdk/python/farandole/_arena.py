"""Arenas: memory of this process that the other ranks of the host reduce in place."""

from typing import Any

from ._library import ffi, interruptible, lib
from ._ops import encode_name
from .process_sets import ProcessSet, group_of


def make(name: str, size: int, process_set: ProcessSet) -> Any:
    """A buffer of `size` zero bytes. Collective; errors as in worker/farandole.h.

    The memory lives as long as the buffer, and that as long as arrays or tensors made from it, also beyond
    shutdown(). A forked child writes into a copy of its own (docs/threads.md).
    """
    arena = ffi.new("farandole_arena**")
    interruptible(lib.farandole_arena_create, encode_name(name), size, group_of(process_set), arena)
    made = arena[0]
    address = ffi.gc(lib.farandole_arena_address(made), lambda _address: lib.farandole_arena_release(made))
    return ffi.buffer(address, size)
