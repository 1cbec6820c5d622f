"""farandole.tensorflow.data by Horovod's name."""

from farandole.tensorflow.data import *  # noqa: F401,F403
