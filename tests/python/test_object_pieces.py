"""Objects of several pieces, on a stand-in for the wire between hosts, where somebody changes what is sent."""

import hashlib
from typing import Any, List, Tuple

import pytest
from farandole import _object_stream, _proofs, objects

PIECE = 64


@pytest.fixture(autouse=True)
def between_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, and proofs as between hosts: on one host there are none."""
    monkeypatch.setattr(_object_stream, "CHUNK_BYTES", PIECE)
    monkeypatch.setattr(
        _proofs, "proof_of", lambda label, content: hashlib.sha256(label.encode() + b"\0" + bytes(content)).digest()
    )


class Wired(objects._Broadcast):
    """A broadcast whose headers and contents go to the wire, or come from it."""

    def __init__(self, wire: List[bytes], is_sender: bool) -> None:
        super().__init__(0, "state", objects.global_process_set)
        self._wire, self._is_sender = wire, is_sender

    def _broadcast(self, memory: bytearray, name: Any) -> None:
        if self._is_sender:
            self._wire.append(bytes(memory))
        else:
            memory[:] = self._wire.pop(0)


def sent(obj: Any) -> List[Tuple[bytes, bytes]]:
    """The pieces of an object, each a header and its content."""
    wire: List[bytes] = []
    _object_stream.send(obj, "rank 0 cannot", Wired(wire, True).send)
    return list(zip(wire[::2], wire[1::2]))


def received(pieces: List[Tuple[bytes, bytes]]) -> Any:
    return _object_stream.receive(Wired([part for piece in pieces for part in piece], False).receive)


def test_an_object_of_several_pieces_arrives() -> None:
    obj = list(range(100))
    pieces = sent(obj)
    assert len(pieces) > 2
    assert received(pieces) == obj


def test_pieces_of_two_objects_cannot_be_put_together() -> None:
    first, second = sent(b"a" * 500), sent(b"b" * 500)
    assert len(first) == len(second)
    with pytest.raises(ConnectionError, match="the object of rank 0 was changed on its way"):
        received([first[0], *second[1:]])


def test_a_piece_that_is_left_out_or_comes_twice_is_noticed() -> None:
    pieces = sent(b"a" * 500)
    for changed in ([pieces[0], *pieces[2:]], [pieces[0], *pieces]):
        with pytest.raises(ConnectionError, match="was changed on its way"):
            received(changed)
