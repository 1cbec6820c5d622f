"""farandole.mxnet by Horovod's name."""

from farandole.mxnet import *  # noqa: F401,F403
from farandole.mxnet import elastic  # noqa: F401

from horovod.common.util import check_extension  # noqa: F401

# Horovod's programs name them without importing them.
from horovod.mxnet import compression, functions, mpi_ops  # noqa: F401
