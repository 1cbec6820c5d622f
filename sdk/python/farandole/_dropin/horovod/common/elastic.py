"""farandole.elastic by Horovod's name."""

from farandole.elastic import HostUpdateResult, ObjectState, State  # noqa: F401
from farandole.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
