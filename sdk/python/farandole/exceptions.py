"""Farandole's exceptions beside Python's own; docs/errors.md has the table of codes.

INVALID_ARGUMENT is InvalidRequest, FAILED_PRECONDITION NotReady, UNAVAILABLE a ConnectionError, PERMISSION_DENIED
and UNAUTHENTICATED are PermissionErrors, NOT_FOUND a LookupError, ALREADY_EXISTS a FileExistsError, UNIMPLEMENTED a
NotImplementedError.
"""


class InvalidRequest(ValueError, RuntimeError):
    """This call is wrong, or ranks disagree about it; the job goes on. Horovod raises a RuntimeError for the latter."""


class NotReady(RuntimeError, ValueError):
    """Not initialized, or shut down, or forked. Horovod raises a ValueError."""


class EpochEnded(RuntimeError):
    """The set of workers has changed or a worker has died: restore the last state, and join again."""


HorovodInternalError = EpochEnded


class HostsUpdatedInterrupt(RuntimeError):
    """Workers come or go, and all ranks have agreed to leave this epoch: elastic.run goes on in the next one."""

    def __init__(self, skip_sync: bool = False) -> None:
        """`skip_sync`: workers only go, in order, so that the remaining ones have one state already."""
        super().__init__("workers leave the job" if skip_sync else "workers join the job")
        self.skip_sync = skip_sync
        # State.commit() raises it: the state was saved a moment before.
        self.at_commit = False


class HorovodVersionMismatchError(ImportError):
    """Horovod's, if the framework is not that of its build. Farandole is built for none, and never raises it."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(f"Framework {name} installed with version {installed_version} but found version {version}.")
        self.name = name
        self.version = version
        self.installed_version = installed_version


class Dismissed(RuntimeError):
    """The job has no place for this process any more: it was drained, or the job has finished. No failure."""


class StallError(RuntimeError):
    """Not all workers joined, or a process did not answer, in time; the message names it. (If a rank falls silent
    while an epoch runs, the others get EpochEnded.)"""


class QuotaError(RuntimeError):
    """The tenant's quota, or another stated maximum, is reached."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read, or fails its checksum; the message names its path."""


class InternalError(RuntimeError):
    """A bug in Farandole. Please report it with its message."""
