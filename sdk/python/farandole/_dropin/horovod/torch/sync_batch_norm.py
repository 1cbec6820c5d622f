"""farandole.torch.sync_batch_norm by Horovod's name."""

from farandole.torch.sync_batch_norm import SyncBatchNorm  # noqa: F401
