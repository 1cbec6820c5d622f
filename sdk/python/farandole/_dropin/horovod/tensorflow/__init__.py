"""farandole.tensorflow by Horovod's name."""

from farandole.tensorflow import *  # noqa: F401,F403
from farandole.tensorflow import elastic  # noqa: F401
from farandole.tensorflow.v1_optimizers import CombinedSteps as _DistributedAdasumOptimizer  # noqa: F401
from farandole.tensorflow.v1_optimizers import ReducedGradients as _DistributedOptimizer  # noqa: F401

from horovod.common.util import check_extension, gpu_available, split_list  # noqa: F401

# Horovod's programs name them without importing them.
from horovod.tensorflow import (  # noqa: F401
    compression,
    functions,
    gradient_aggregation,
    gradient_aggregation_eager,
    mpi_ops,
    sync_batch_norm,
    util,
)
from horovod.tensorflow.mpi_ops import (  # noqa: F401
    _allreduce,
    _grouped_allreduce,
    _grouped_reducescatter,
    _reducescatter,
    check_num_rank_power_of_2,
    handle_average_backwards_compatibility,
)
from horovod.tensorflow.util import _cache, _executing_eagerly, _make_subgraph, refs_to_vars, vars_to_refs  # noqa: F401
