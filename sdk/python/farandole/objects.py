"""Python objects over the data plane: pickled, as bytes. Use them among workers that trust each other, which those of
a job do."""

import pickle
from typing import Any, List, Optional

from . import _handles, _ops
from ._handles import Handle
from ._library import ffi, lib
from .basics import rank
from .process_sets import ProcessSet, global_process_set, group_of

try:  # It also pickles lambdas and classes of __main__; what it writes, pickle reads.
    from cloudpickle import dumps as _dumps
except ImportError:
    from pickle import dumps as _dumps

_PICKLED, _FAILED = 0, 1


def _address(memory: Any) -> int:
    return int(ffi.cast("uintptr_t", ffi.from_buffer(memory)))


def _broadcast_bytes(memory: bytearray, root: int, name: Any, group: int) -> None:
    address = _address(memory)
    _handles.finish(
        lib.farandole_broadcast(
            name, address, address, ffi.new("int64_t[]", [len(memory)]), 1, lib.FARANDOLE_U8, root, group
        ),
        memory,
    )


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the root's object on every rank of the set; the root gets `obj` itself.

    `root_rank` is a rank of the job; `obj` matters on the root only. An object that cannot be pickled raises there,
    and RuntimeError with the same sentence on the other ranks.
    """
    group = group_of(process_set)
    root = rank() == root_rank
    failed, content = None, b""
    if root:
        try:
            content = _dumps(obj)
        except Exception as error:  # pylint: disable=broad-except; the others are told of whatever it is
            failed = error
            content = f"rank {root_rank} cannot pickle its {type(obj).__name__} for broadcast_object: {error}".encode()
    header = bytearray((_FAILED if failed else _PICKLED).to_bytes(8, "little") + len(content).to_bytes(8, "little"))
    _broadcast_bytes(header, root_rank, _ops.name_for(f"{name}.header" if name else None), group)
    state, size = int.from_bytes(header[:8], "little"), int.from_bytes(header[8:], "little")
    memory = bytearray(content) if root else bytearray(size)
    _broadcast_bytes(memory, root_rank, _ops.name_for(f"{name}.content" if name else None), group)
    if failed is not None:
        raise failed
    if state == _FAILED:
        raise RuntimeError(memory.decode(errors="replace"))
    return obj if root else pickle.loads(memory)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns the objects of all ranks of the set, in the order of ranks."""
    group = group_of(process_set)
    memory = bytearray(_dumps(obj))
    shape = ffi.new("int64_t[]", [len(memory)])

    def collect(ids):
        (data, size), rows = _ops.gathered(ids[0], group)
        everything = memoryview(ffi.buffer(data, size))
        objects, start = [], 0
        for count in rows:
            objects.append(pickle.loads(everything[start : start + count]))
            start += count
        return objects

    handle = Handle((memory, shape), collect)
    handle.submit(lib.farandole_allgather, _ops.name_for(name), _address(memory), shape, 1, lib.FARANDOLE_U8, group)
    return handle.synchronize()
