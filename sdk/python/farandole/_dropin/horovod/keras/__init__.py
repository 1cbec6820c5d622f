"""farandole.keras by Horovod's name; where tf.keras is tf-keras, as for programs of Horovod's time, farandole.tensorflow.keras."""

from horovod._keras_choice import IS_LEGACY

if IS_LEGACY:
    from farandole.tensorflow.keras import *  # noqa: F401,F403
else:
    from farandole.keras import *  # noqa: F401,F403
