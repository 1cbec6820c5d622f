"""farandole.torch by Horovod's name."""

from farandole.torch import *  # noqa: F401,F403
from farandole.torch import SyncBatchNorm, elastic  # noqa: F401

from horovod.common.util import check_extension  # noqa: F401

# Horovod's programs name them without importing them.
from horovod.torch import compression, functions, mpi_ops, optimizer, sync_batch_norm  # noqa: F401
