"""farandole.torch.optimizer by Horovod's name."""

from farandole.torch.optimizer import DistributedOptimizer  # noqa: F401
