"""farandole.keras.elastic by Horovod's name."""

from horovod._keras_choice import IS_LEGACY

if IS_LEGACY:
    from farandole.tensorflow.keras.elastic import *  # noqa: F401,F403
else:
    from farandole.keras.elastic import *  # noqa: F401,F403
