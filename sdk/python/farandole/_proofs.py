"""Workers prove what they send as an object, since unpickling runs what the bytes say, and between hosts somebody may
change them. A proof holds for the epoch, the kind of call, its name and its sender: within these, an old object can be
sent again."""

import hmac
from typing import Any

from ._library import check, ffi, lib

PROOF_BYTES = 32


def proof_of(label: str, content: Any) -> bytes:
    """PROOF_BYTES bytes that only workers of this epoch can make of this label and content. All 0 on one host."""
    proof = ffi.new("char[]", PROOF_BYTES)
    check(lib.farandole_prove(label.encode(), ffi.from_buffer(content), len(content), proof))
    return bytes(ffi.buffer(proof, PROOF_BYTES))


def secret_of(label: str, seed: bytes) -> bytes:
    """Bytes that only workers of this epoch can make of this label and of PROOF_BYTES random bytes that crossed the
    network. On one host, which they do not leave, these bytes themselves."""
    return bytes(own ^ proof for own, proof in zip(seed, proof_of(label, seed)))


def require(label: str, content: Any, proof: Any, what: str) -> None:
    """ConnectionError: no worker of this epoch has sent this; `what` begins the sentence."""
    if not hmac.compare_digest(proof_of(label, content), bytes(proof)):
        raise ConnectionError(
            f"{what} was changed on its way over the network, and is not unpickled: it does not prove that a worker of "
            "this epoch has sent it"
        )
