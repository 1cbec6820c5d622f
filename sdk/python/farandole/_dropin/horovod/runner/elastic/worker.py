"""A worker's notices of changes of the hosts."""

from farandole.elastic import HostUpdateResult  # noqa: F401

from horovod.common.elastic import Notifications as WorkerNotificationManager  # noqa: F401
