"""Which Keras tf.keras is."""

import tensorflow as tf

keras = tf.keras
IS_KERAS_3 = hasattr(keras, "ops")  # tf-keras does not tell its version everywhere, and has none
