"""farandole.torch.elastic by Horovod's name."""

from farandole.torch.elastic import *  # noqa: F401,F403

from horovod.common.elastic import run_fn  # noqa: F401
