"""The operations by Horovod's name."""

from farandole.mxnet import *  # noqa: F401,F403
