"""Python objects over the data plane: pickled, as bytes. Use them among workers that trust each other, which those of
a job do. Between hosts a worker unpickles only what proves that a worker of this epoch has sent it (ConnectionError)."""

import io
from typing import Any, List, Optional, Sequence, Tuple

from . import _handles, _object_stream, _ops, _pickles, _proofs
from ._handles import Handle
from ._library import SURFACE_MS, ffi, lib
from .basics import rank
from .process_sets import ProcessSet, global_process_set, group_of


def _address(memory: Any) -> int:
    return int(ffi.cast("uintptr_t", ffi.from_buffer(memory)))


_KIND_AND_SIZE = 16


class _Broadcast:
    """The chunks of one object, each a header (kind and size, 8 bytes each, and the proof of both, of the content, and of
    the chunks before it) and its content."""

    def __init__(self, root: int, name: Optional[str], process_set: ProcessSet) -> None:
        self._root = _ops.root_for(root)
        _ops.name_for(name)
        self._group = group_of(process_set)
        self._header_name = _ops.name_for(f"{name}.header" if name else None)
        self._content_name = _ops.name_for(f"{name}.content" if name else None)
        self._label = f"broadcast {self._root} {self._group} {name or ''}"
        self._chunks = 0
        # Of the chunk before: so that chunks of two objects cannot be put together.
        self._last_proof = b""

    def send(self, kind: int, content: bytearray) -> None:
        header = kind.to_bytes(8, "little") + len(content).to_bytes(8, "little")
        proof = self._last_proof = _proofs.proof_of(self._next_label(header), content)
        self._broadcast(bytearray(header + proof), self._header_name)
        self._broadcast(content, self._content_name)

    def receive(self) -> Tuple[int, bytearray]:
        header = bytearray(_KIND_AND_SIZE + _proofs.PROOF_BYTES)
        self._broadcast(header, self._header_name)
        told, proof = bytes(header[:_KIND_AND_SIZE]), header[_KIND_AND_SIZE:]
        what = f"the object of rank {self._root}"
        size = int.from_bytes(told[8:], "little")
        if size > _object_stream.CHUNK_BYTES:
            raise ConnectionError(f"{what} has a piece of {size} bytes, which no rank sends: it was changed on its way")
        content = bytearray(size)
        self._broadcast(content, self._content_name)
        _proofs.require(self._next_label(told), content, proof, what)
        self._last_proof = bytes(proof)
        return int.from_bytes(told[:8], "little"), content

    def _next_label(self, header: bytes) -> str:
        self._chunks += 1
        return f"{self._label} {self._chunks} {header.hex()} {self._last_proof.hex()}"

    def _broadcast(self, memory: bytearray, name: Any) -> None:
        address = _address(memory)
        shape = ffi.new("int64_t[]", [len(memory)])
        terms = (shape, 1, lib.FARANDOLE_U8, self._root, self._group, SURFACE_MS)
        _handles.run(lib.farandole_broadcast, (memory, shape), name, address, address, *terms)


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the root's object on every rank of the set; the root gets `obj` itself.

    `root_rank` is a rank of the job; `obj` matters on the root only. It travels in chunks of 16 MiB. An object that
    cannot be pickled raises there, and RuntimeError with the same sentence on the other ranks.
    """
    broadcast = _Broadcast(root_rank, name, process_set)
    if rank() != root_rank:
        return _object_stream.receive(broadcast.receive)
    who = f"rank {root_rank} cannot pickle its {type(obj).__name__} for broadcast_object"
    _object_stream.send(obj, who, broadcast.send)
    return obj


# The first byte behind the proof of what a rank gives to allgather_object: a pickle follows, or the sentence that says why
# there is none.
_PICKLED, _REFUSED = b"\0", b"\1"


def _pickled(obj: Any) -> Tuple[bytearray, Optional[Exception]]:
    """A rank's contribution to allgather_object, with room for the proof, and the exception of pickling its object."""
    room = bytes(_proofs.PROOF_BYTES)
    file = io.BytesIO(room + _PICKLED)
    file.seek(0, io.SEEK_END)
    try:
        _pickles.Pickler(file, protocol=5).dump(obj)
    except Exception as error:  # pylint: disable=broad-except; the others are told of whatever it is
        sentence = f"rank {rank()} cannot pickle its {type(obj).__name__} for allgather_object: {error}"
        return bytearray(room + _REFUSED + sentence.encode()), error
    return bytearray(file.getbuffer()), None


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns the objects of all ranks of the set, in the order of ranks; those that have joined give none.

    An object that cannot be pickled raises on its rank, and RuntimeError with the same sentence on the other ranks.
    """
    group = group_of(process_set)
    ranks = lib.farandole_group_size(group)
    label = f"allgather {group} {name or ''}"
    memory, refusal = _pickled(obj)
    with memoryview(memory) as view:
        view[: _proofs.PROOF_BYTES] = _proofs.proof_of(f"{label} from {rank()}", view[_proofs.PROOF_BYTES :])
    shape = ffi.new("int64_t[]", [len(memory)])

    def collect(ids: Sequence[int]) -> List[Any]:
        (data, size), rows = _ops.gathered(ids[0], ranks)
        everything = memoryview(ffi.buffer(data, size))
        parts, start = [], 0
        for count in rows:
            parts.append(everything[start : start + count])
            start += count
        contents = []
        for sender, part in zip(process_set.ranks, parts):
            if len(part) > 0:
                proof, given = part[: _proofs.PROOF_BYTES], part[_proofs.PROOF_BYTES :]
                _proofs.require(f"{label} from {sender}", given, proof, f"the object of rank {sender}")
                contents.append(given)
        for given in contents:
            if given[:1] == _REFUSED:
                raise refusal or RuntimeError(bytes(given[1:]).decode(errors="replace"))
        return [_pickles.loads(given[1:]) for given in contents]

    handle = Handle((memory, shape), collect)
    terms = (lib.FARANDOLE_U8, group, SURFACE_MS, ffi.NULL)
    handle.submit(None, lib.farandole_allgather, _ops.name_for(name), _address(memory), shape, 1, *terms)
    return handle.synchronize()
