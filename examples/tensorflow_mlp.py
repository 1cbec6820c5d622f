"""Trains a multilayer perceptron with TensorFlow: the step is a compiled function, whose gradients travel as it runs.

    .venv/bin/farandole run -np 2 .venv-tensorflow/bin/python examples/tensorflow_mlp.py

The task, made up from a seed: tell from 20 numbers which of 4 hidden directions they lean to most.
"""

import farandole.tensorflow as hvd
import tensorflow as tf

FEATURES, CLASSES, STEPS, BATCH = 20, 4, 300, 64


def make_task(count: int, seed: int) -> tuple:
    """Features [count, 20] and labels [count]; the directions are the same for every seed."""
    directions = tf.random.stateless_normal([FEATURES, CLASSES], seed=[0, 0])
    features = tf.random.stateless_normal([count, FEATURES], seed=[seed, 1])
    return features, tf.argmax(features @ directions, 1)


def main() -> None:
    hvd.init()
    model = tf.keras.Sequential(
        [
            tf.keras.Input([FEATURES]),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(CLASSES),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables([*model.variables, *optimizer.variables], root_rank=0)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(features))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return hvd.allreduce(loss)

    features, labels = make_task(4096, seed=1 + hvd.rank())
    for number in range(STEPS):
        begin = number * BATCH % len(labels)
        loss = step(features[begin : begin + BATCH], labels[begin : begin + BATCH])

    test_features, test_labels = make_task(2048, seed=1000)
    found = tf.argmax(model(test_features), 1)
    accuracy = tf.reduce_mean(tf.cast(found == test_labels, tf.float32)).numpy()
    reports = hvd.allgather_object({"rank": hvd.rank(), "accuracy": accuracy})
    if hvd.rank() == 0:
        print(f"last loss of all ranks {loss.numpy():.4f}")
        for report in reports:
            print(f"rank {report['rank']}: test accuracy {report['accuracy']:.2%}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
