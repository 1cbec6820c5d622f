"""Horovod's exceptions."""

from farandole.exceptions import (  # noqa: F401
    HorovodInternalError,
    HorovodVersionMismatchError,
    HostsUpdatedInterrupt,
)
