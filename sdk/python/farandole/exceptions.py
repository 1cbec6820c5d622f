"""What Farandole raises beside Python's own exceptions; docs/errors.md has the table of codes.

INVALID_ARGUMENT is a ValueError, FAILED_PRECONDITION a RuntimeError, UNAVAILABLE a ConnectionError, PERMISSION_DENIED
and UNAUTHENTICATED are PermissionErrors, NOT_FOUND a LookupError, ALREADY_EXISTS a FileExistsError, UNIMPLEMENTED a
NotImplementedError.
"""


class EpochEnded(RuntimeError):
    """The set of workers has changed or a worker has died: restore the last state, and join again."""


HorovodInternalError = EpochEnded


class StallError(RuntimeError):
    """A rank was silent beyond the limit; the message names it."""


class QuotaError(RuntimeError):
    """The tenant's quota, or another stated maximum, is reached."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read, or fails its checksum; the message names its path."""


class InternalError(RuntimeError):
    """A bug in Farandole. Please report it with its message."""
