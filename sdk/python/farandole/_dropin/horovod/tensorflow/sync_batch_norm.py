"""farandole.tensorflow.sync_batch_norm by Horovod's name."""

from farandole.tensorflow.sync_batch_norm import SyncBatchNormalization  # noqa: F401
