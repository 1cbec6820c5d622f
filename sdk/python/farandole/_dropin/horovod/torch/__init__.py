"""farandole.torch by Horovod's name."""

from farandole.torch import *  # noqa: F401,F403
from farandole.torch import SyncBatchNorm, elastic  # noqa: F401
