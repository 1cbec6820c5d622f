"""farandole.keras.callbacks by Horovod's name."""

from horovod._keras_choice import IS_LEGACY

if IS_LEGACY:
    from farandole.tensorflow.keras.callbacks import *  # noqa: F401,F403
else:
    from farandole.keras.callbacks import *  # noqa: F401,F403
