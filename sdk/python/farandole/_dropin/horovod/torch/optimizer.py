"""farandole.torch.optimizer by Horovod's name."""

from farandole.torch.adasum import DistributedSteps as _DistributedAdasumOptimizer  # noqa: F401
from farandole.torch.optimizer import DistributedOptimizer  # noqa: F401
from farandole.torch.optimizer import _Distributed as _DistributedOptimizer  # noqa: F401
