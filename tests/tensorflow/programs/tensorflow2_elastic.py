"""Written from Horovod's documentation of elastic TensorFlow 2 (docs/elastic.rst): nothing here is Farandole's, but the images and
the last line."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init()

random = np.random.RandomState(hvd.rank())
data = random.rand(64, 28, 28).astype(np.float32)
target = random.randint(10, size=64)

model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")])
optimizer = tf.optimizers.Adam(0.001 * hvd.size())
loss_of = tf.losses.SparseCategoricalCrossentropy()


@tf.function
def train_one_batch(data, target, allreduce=True):
    with tf.GradientTape() as tape:
        probs = model(data, training=True)
        loss = loss_of(target, probs)
    if allreduce:
        tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


# Initialize model and optimizer state so we can synchronize across workers
train_one_batch(data, target, allreduce=False)


@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, 2):  # noqa: B020
        for state.batch in range(state.batch, 5):  # noqa: B020
            train_one_batch(data, target)
            if state.batch % 2 == 0:
                state.commit()
        state.batch = 0


def on_state_reset():
    optimizer.learning_rate.assign(0.001 * hvd.size())


state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0, epoch=0)
state.register_reset_callbacks([on_state_reset])
train(state)
print("rank %d ends lower, %r" % (hvd.rank(), float(sum(each.sum() for each in model.get_weights()))), flush=True)
