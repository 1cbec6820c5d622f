"""farandole.torch.elastic by Horovod's name."""

from farandole.torch.elastic import *  # noqa: F401,F403
