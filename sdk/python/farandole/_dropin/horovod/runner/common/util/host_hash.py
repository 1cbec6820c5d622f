"""Which processes share a host, by Horovod's name."""

import hashlib
import socket
from typing import Optional


def host_hash(salt: Optional[str] = None) -> str:
    """The host's name, with a number made of it and of `salt`: equal on one host."""
    name = socket.gethostname()
    digest = hashlib.md5(f"{name}-{salt}".encode() if salt else name.encode(), usedforsecurity=False).hexdigest()
    return f"{name.split('.')[0]}-{digest}"
