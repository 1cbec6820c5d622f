"""What a worker hears of changes."""

from farandole.elastic import HostUpdateResult  # noqa: F401

from horovod.common.elastic import Notifications as WorkerNotificationManager  # noqa: F401
