"""farandole.tensorflow.keras by Horovod's name."""

from farandole.tensorflow.keras import *  # noqa: F401,F403
