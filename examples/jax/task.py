"""Fashion-MNIST for the examples of this folder, as arrays of JAX."""

import pathlib
import sys
from typing import Any, Iterator, Tuple

import farandole.jax as hvd
import jax.numpy as jnp

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import fashion_mnist_data as data  # noqa: E402
from fashion_mnist_data import Images, parse_arguments, read_images  # noqa: E402, F401


def shares(images: Images, batch_size: int, steps: int) -> Iterator[Tuple[Any, Any]]:
    """This rank's share of each batch. All ranks go through the images in the same order."""
    for batch in data.shares(images, batch_size, steps, hvd.rank(), hvd.size()):
        yield jnp.asarray(batch.inputs), jnp.asarray(batch.labels)


def report(logits: Any, test: Images, save: Any, parameters: Any) -> None:
    """Rank 0 tells how many images of the test are recognized, and saves the list of parameters."""
    if hvd.rank() == 0:
        data.report(logits, test, save, parameters, hvd.size())
