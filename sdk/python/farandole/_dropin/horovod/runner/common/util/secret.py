"""Secrets and digests, by Horovod's name."""

import hashlib
import hmac
import os

HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"
DIGEST_LENGTH = 32


def make_secret_key() -> bytes:
    """A new key."""
    return os.urandom(32)


def compute_digest(secret: bytes, message: bytes) -> bytes:
    """The message's digest under the key."""
    return hmac.new(secret, message, hashlib.sha256).digest()


def check_digest(secret: bytes, message: bytes, digest: bytes) -> bool:
    """Whether the digest is the message's."""
    return hmac.compare_digest(compute_digest(secret, message), digest)
