"""Fashion-MNIST for the examples: the images, and how ranks share a batch. The data is Debian's package
dataset-fashion-mnist."""

import argparse
import gzip
import math
import pathlib
import struct
import sys
from typing import Any, Iterator, NamedTuple, Sequence, Tuple

import numpy

DATA = "/usr/share/datasets/fashion-mnist"


class Images(NamedTuple):
    """Inputs [n, 784] from 0 to 1, and labels [n]."""

    inputs: numpy.ndarray
    labels: numpy.ndarray


def read_idx(path: pathlib.Path) -> numpy.ndarray:
    """The array of bytes in a gzipped IDX file (yann.lecun.com/exdb/mnist). Ends the program with a sentence if it
    cannot be read."""
    try:
        content = gzip.decompress(path.read_bytes())
        zero, kind, dimensions = struct.unpack_from(">HBB", content)
        shape = struct.unpack_from(f">{dimensions}I", content, 4)
        start = 4 + 4 * dimensions
        if zero != 0 or kind != 8 or len(content) != start + math.prod(shape):
            raise ValueError("it is no IDX file of bytes")
    except (OSError, EOFError, ValueError, struct.error) as error:
        reason = getattr(error, "strerror", None) or error
        sys.exit(
            f"{path} cannot be read: {reason}; the data comes with `apt-get install dataset-fashion-mnist`, or name its directory with --data"
        )
    return numpy.frombuffer(bytearray(content), numpy.uint8, offset=start).reshape(shape)


def read(directory: str, prefix: str) -> Tuple[numpy.ndarray, numpy.ndarray]:
    """The images [n, 28, 28] and labels [n] of "train" or "t10k", as bytes."""
    folder = pathlib.Path(directory)
    return read_idx(folder / f"{prefix}-images-idx3-ubyte.gz"), read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")


def read_images(directory: str, prefix: str) -> Images:
    """Those of "train" or "t10k"."""
    images, labels = read(directory, prefix)
    return Images(images.reshape(len(images), -1).astype(numpy.float32) / 255, labels.astype(numpy.int32))


def parse_arguments(what: str) -> argparse.Namespace:
    """Of an example that trains in steps."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--data", default=DATA, help="directory of the four .gz files (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="steps of training (default: %(default)s)")
    parser.add_argument(
        "--batch-size", type=int, default=120, help="images of all workers together in a step (default: %(default)s)"
    )
    parser.add_argument("--save", help="file for the parameters that rank 0 has at the end")
    return parser.parse_args()


def shares(images: Images, batch_size: int, steps: int, rank: int, size: int) -> Iterator[Images]:
    """A rank's share of each batch. All ranks go through the images in the same order."""
    if batch_size % size:
        sys.exit(f"--batch-size {batch_size} is not a multiple of the {size} workers")
    order = numpy.random.RandomState(1).permutation(len(images.labels))
    own = batch_size // size
    for step in range(steps):
        batch = numpy.take(order, range(step * batch_size, (step + 1) * batch_size), mode="wrap")
        mine = batch[rank * own : (rank + 1) * own]
        yield Images(images.inputs[mine], images.labels[mine])


def report(logits: Any, test: Images, save: Any, parameters: Sequence[Any], size: int) -> None:
    """For rank 0: tells how many images of the test are recognized, and saves the list of parameters."""
    print(f"{size} workers: test accuracy {numpy.mean(numpy.argmax(logits, 1) == test.labels):.2%}")
    if save:
        numpy.savez(save, *map(numpy.asarray, parameters))
