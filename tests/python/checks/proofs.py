"""Objects that somebody changes between hosts, which is played by a rank that changes what it has received."""

import os
from typing import Any, Callable, List
from unittest import mock

import farandole.torch as hvd
from farandole import _ops, objects
from farandole._library import ffi
from harness import Checks

check = Checks()

unpickled: List[str] = []


def has_other_hosts() -> bool:
    return objects._proofs.proof_of("", b"") != bytes(objects._proofs.PROOF_BYTES)


def spring() -> None:
    unpickled.append("sprung")


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> Any:
        return spring, ()


def refused(call: Callable[[], Any]) -> bool:
    """Whether the call has raised the error of a changed object. Otherwise it has given its output."""
    try:
        call()
    except ConnectionError as error:
        assert "was changed on its way" in str(error), error
        return True
    return False


@check
def a_broadcast_that_was_changed_between_hosts_is_not_unpickled() -> None:
    receive = objects._Broadcast._broadcast

    def changing(self: Any, memory: bytearray, name: Any) -> None:
        receive(self, memory, name)
        if hvd.rank() != 0 and len(memory) != objects._KIND_AND_SIZE + objects._proofs.PROOF_BYTES:
            memory[-1:] = b"?"  # instead of what ends a pickle

    unpickled.clear()
    with mock.patch.object(objects._Broadcast, "_broadcast", changing):
        if has_other_hosts():
            assert refused(lambda: hvd.broadcast_object(Trap(), 0)) == (hvd.rank() != 0)
    assert not unpickled, "the object was unpickled"
    hvd.broadcast_object(Trap(), 0)
    assert unpickled == (["sprung"] if hvd.rank() != 0 else [])


@check
def a_size_that_was_changed_between_hosts_is_refused() -> None:
    receive = objects._Broadcast._broadcast

    def changing(self: Any, memory: bytearray, name: Any) -> None:
        receive(self, memory, name)
        if hvd.rank() != 0 and len(memory) == objects._KIND_AND_SIZE + objects._proofs.PROOF_BYTES:
            memory[15] = 0x40

    with mock.patch.object(objects._Broadcast, "_broadcast", changing):
        # The root's content would wait for the others: it has none that they know of.
        if hvd.rank() != 0:
            assert refused(lambda: objects._Broadcast(0, "size", hvd.global_process_set).receive())
        else:
            header = bytearray(objects._KIND_AND_SIZE + objects._proofs.PROOF_BYTES)
            broadcast = objects._Broadcast(0, "size", hvd.global_process_set)
            receive(broadcast, header, broadcast._header_name)


@check
def an_object_of_allgather_that_was_changed_between_hosts_is_not_unpickled() -> None:
    gathered = _ops.gathered

    def changing(handle: int, group: int) -> Any:
        (data, size), rows = gathered(handle, group)
        ffi.buffer(data, size)[size - 1] = b"?"
        return (data, size), rows

    unpickled.clear()
    if has_other_hosts():
        with mock.patch.object(_ops, "gathered", changing):
            assert refused(lambda: hvd.allgather_object(Trap()))
        assert not unpickled, "an object was unpickled"
    assert hvd.allgather_object(Trap()) == [None] * hvd.size()
    assert unpickled == ["sprung"] * hvd.size()


@check
def a_proof_holds_for_its_epoch_call_name_and_sender() -> None:
    made = objects._proofs.proof_of("allgather 0 a from 0", b"content")
    others = [
        ("allgather 0 b from 0", b"content"),
        ("allgather 0 a from 1", b"content"),
        ("allgather 0 a from 0", b"conten"),
    ]
    assert made == objects._proofs.proof_of("allgather 0 a from 0", b"content")
    if has_other_hosts():
        assert all(objects._proofs.proof_of(*other) != made for other in others)
        assert hvd.allgather_object(made) == [made] * hvd.size(), "all workers of the epoch make the same proof"


@check
def workers_make_a_secret_of_what_crosses_hosts() -> None:
    seed = hvd.broadcast_object(os.urandom(objects._proofs.PROOF_BYTES) if hvd.rank() == 0 else None)
    secret = objects._proofs.secret_of("a key", seed)
    assert hvd.allgather_object(secret) == [secret] * hvd.size()
    assert (secret != seed) == has_other_hosts()
    assert (objects._proofs.secret_of("another key", seed) != secret) == has_other_hosts()
