"""farandole.tensorflow.keras.elastic by Horovod's name."""

from farandole.tensorflow.keras.elastic import *  # noqa: F401,F403
