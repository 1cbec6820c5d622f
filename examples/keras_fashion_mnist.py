"""Trains a small CNN on Fashion-MNIST with Keras 3 and several workers, on TensorFlow, JAX or PyTorch.

    KERAS_BACKEND=jax .venv/bin/farandole run -np 2 .venv-tensorflow/bin/python examples/keras_fashion_mnist.py
    KERAS_BACKEND=jax .venv-tensorflow/bin/python examples/keras_fashion_mnist.py     # the same with one worker

The data is Debian's package dataset-fashion-mnist. The workers' batches of a step are together one batch of all images, so
that two workers train as one with a batch and a learning rate twice as large.
"""

import argparse
from typing import Any, Tuple

import farandole.keras as hvd
import fashion_mnist_data
import keras
import numpy
from fashion_mnist_data import DATA


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a CNN on Fashion-MNIST with farandole.keras.")
    parser.add_argument("--data", default=DATA, help="directory of the four .gz files (default: %(default)s)")
    parser.add_argument("--images", type=int, default=60000, help="images to train with (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="passes over them (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per worker and step (default: %(default)s)")
    parser.add_argument(
        "--lr",
        type=float,
        default=0.02,
        help="learning rate of one worker; it is scaled by their number (default: %(default)s)",
    )
    parser.add_argument(
        "--warmup-epochs", type=int, default=1, help="passes up to that rate; 0: none (default: %(default)s)"
    )
    parser.add_argument("--resume", help="go on with the model in this file, and with its optimizer")
    parser.add_argument("--save", help="save the model into this file, by rank 0")
    return parser.parse_args()


def read(directory: str, prefix: str) -> Tuple[numpy.ndarray, numpy.ndarray]:
    """Images [n, 28, 28, 1] as float32, and labels [n]."""
    pixels, labels = fashion_mnist_data.read(directory, prefix)
    mean, deviation = 72.9, 90.0  # of the training images
    return (pixels[..., None].astype(numpy.float32) - mean) / deviation, labels


def make_model() -> Any:
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def compiled(arguments: argparse.Namespace) -> Any:
    """The model, new or from a file, with an optimizer that reduces gradients over the workers."""
    if arguments.resume:
        model = hvd.load_model(arguments.resume)
        model.optimizer.learning_rate = arguments.lr * hvd.size()
        return model
    model = make_model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(arguments.lr * hvd.size(), momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    model = compiled(arguments)
    images, labels = read(arguments.data, "train")
    order = numpy.random.RandomState(1).permutation(len(labels))[: arguments.images]
    mine = order[hvd.rank() :: hvd.size()]
    tests, test_labels = (array[hvd.rank() :: hvd.size()] for array in read(arguments.data, "t10k"))

    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    if arguments.warmup_epochs:
        rate = arguments.lr * hvd.size()
        callbacks.append(hvd.callbacks.LearningRateWarmupCallback(rate, arguments.warmup_epochs))
    if arguments.epochs:
        history = model.fit(
            images[mine],
            labels[mine],
            batch_size=arguments.batch_size,
            epochs=arguments.epochs,
            validation_data=(tests, test_labels),
            shuffle=False,
            callbacks=callbacks,
            verbose=0,
        ).history
        if hvd.rank() == 0:
            for epoch, (loss, accuracy) in enumerate(zip(history["loss"], history["val_accuracy"])):
                print(f"pass {epoch + 1}/{arguments.epochs}: loss {loss:.3f}, test accuracy {accuracy:.2%}", flush=True)
    if arguments.save and hvd.rank() == 0:
        model.save(arguments.save)
    hvd.shutdown()


if __name__ == "__main__":
    main()
