"""Trains a small CNN on Fashion-MNIST with TensorFlow and several workers: the step is a compiled function, whose gradients
travel as it runs.

    .venv/bin/farandole run -np 2 .venv-tensorflow/bin/python examples/tensorflow_fashion_mnist.py
    .venv-tensorflow/bin/python examples/tensorflow_fashion_mnist.py            # the same with one worker

With any number of workers it trains to the same parameters, as far as rounding goes, since --batch-size counts the images
of all of them.
"""

from typing import Any

import farandole.tensorflow as hvd
import tensorflow as tf
from fashion_mnist_data import Images, parse_arguments, read_images, report, shares


def make_model() -> Any:
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def inputs_of(images: Images) -> tf.Tensor:
    return tf.reshape(tf.constant(images.inputs), [-1, 28, 28, 1])


def main() -> None:
    arguments = parse_arguments(__doc__)
    hvd.init()
    tf.keras.utils.set_random_seed(hvd.rank() + 1)
    model, optimizer = make_model(), tf.keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables([*model.variables, *optimizer.variables], root_rank=0)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    train = read_images(arguments.data, "train")
    batches = shares(train, arguments.batch_size, arguments.steps, hvd.rank(), hvd.size())
    for number, batch in enumerate(batches):
        loss = step(inputs_of(batch), tf.constant(batch.labels))
        if number % 100 == 0:
            mean = hvd.allreduce(loss, name="loss").numpy()
            if hvd.rank() == 0:
                print(f"step {number}: loss of all workers {mean:.4f}", flush=True)

    if hvd.rank() == 0:
        test = read_images(arguments.data, "t10k")
        logits = model.predict(inputs_of(test), batch_size=500, verbose=0)
        report(logits, test, arguments.save, model.get_weights(), hvd.size())
    hvd.shutdown()


if __name__ == "__main__":
    main()
