"""farandole.tensorflow.elastic by Horovod's name."""

from farandole.tensorflow.elastic import *  # noqa: F401,F403
