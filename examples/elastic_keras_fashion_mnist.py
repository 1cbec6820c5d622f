"""Trains the small CNN of keras_fashion_mnist.py while workers come and go.

    KERAS_BACKEND=jax .venv/bin/farandole run -np 2 --min-np 1 --max-np 4 \\
        .venv-tensorflow/bin/python examples/elastic_keras_fashion_mnist.py

Kill a worker (kill -9) at any time: the others go on from the last commit, within the same pass.
"""

import argparse
from typing import Any

import farandole.keras as hvd
import keras
import numpy
from keras_fashion_mnist import DATA, make_model, read


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a CNN on Fashion-MNIST with workers that come and go.")
    parser.add_argument("--data", default=DATA, help="directory of the four .gz files (default: %(default)s)")
    parser.add_argument("--images", type=int, default=60000, help="images to train with (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="passes over them (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per worker and step (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate of one worker (default: %(default)s)")
    parser.add_argument("--save", help="save the model into this file, by rank 0")
    return parser.parse_args()


@hvd.elastic.run
def train(state: Any, images: numpy.ndarray, labels: numpy.ndarray, arguments: argparse.Namespace) -> None:
    """All passes, or what is left of them. It is called again in each new set of workers."""
    state.model.optimizer.learning_rate = arguments.lr * hvd.size()
    # The workers have equally many images. Those of a step follow each other in the order, however many workers there are.
    count = len(labels) // hvd.size() * hvd.size()
    mine = slice(hvd.rank(), count, hvd.size())
    if hvd.rank() == 0:
        print(f"{hvd.size()} workers, pass {state.epoch + 1} from batch {state.batch} on", flush=True)
    history = state.model.fit(
        images[mine],
        labels[mine],
        batch_size=arguments.batch_size,
        epochs=arguments.epochs - state.epoch,
        shuffle=False,
        callbacks=[
            hvd.callbacks.MetricAverageCallback(),
            hvd.elastic.UpdateEpochStateCallback(state),
            hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.CommitStateCallback(state, batches_per_commit=10),
        ],
        verbose=0,
    ).history
    if hvd.rank() == 0 and history.get("accuracy"):
        print(f"{state.epoch} passes: accuracy {history['accuracy'][-1]:.2%}", flush=True)


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    model = make_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(arguments.lr, momentum=0.9))
    model.compile(optimizer, loss, metrics=["accuracy"])
    images, labels = read(arguments.data, "train")
    order = numpy.random.RandomState(1).permutation(len(labels))[: arguments.images]
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    train(state, images[order], labels[order], arguments)
    if arguments.save and hvd.rank() == 0:
        model.save(arguments.save)


if __name__ == "__main__":
    main()
