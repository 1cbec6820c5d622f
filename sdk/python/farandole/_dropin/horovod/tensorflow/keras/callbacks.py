"""farandole.tensorflow.keras.callbacks by Horovod's name."""

from farandole.tensorflow.keras.callbacks import *  # noqa: F401,F403
