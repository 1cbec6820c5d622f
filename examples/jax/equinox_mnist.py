"""Trains a model of Equinox on Fashion-MNIST.

    .venv/bin/farandole run -np 2 .venv-jax/bin/python examples/jax/equinox_mnist.py

A model of Equinox is a pytree with functions among its leaves: broadcast_parameters leaves those alone.
"""

from typing import Any, Tuple

import equinox
import farandole.jax as hvd
import jax
import optax
from task import parse_arguments, read_images, report, shares


def loss_of(model: Any, inputs: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(inputs), labels).mean()


def main() -> None:
    arguments = parse_arguments(__doc__)
    hvd.init()
    model = equinox.nn.MLP(784, 10, 128, 1, key=jax.random.key(hvd.rank()))
    model = hvd.broadcast_parameters(model, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1, momentum=0.9))
    state = optimizer.init(equinox.filter(model, equinox.is_inexact_array))

    @equinox.filter_jit
    def step(model: Any, state: Any, inputs: jax.Array, labels: jax.Array) -> Tuple[Any, Any]:
        gradients = equinox.filter_grad(loss_of)(model, inputs, labels)
        updates, state = optimizer.update(gradients, state, equinox.filter(model, equinox.is_inexact_array))
        return equinox.apply_updates(model, updates), state

    for inputs, labels in shares(read_images(arguments.data, "train"), arguments.batch_size, arguments.steps):
        model, state = step(model, state, inputs, labels)
    test = read_images(arguments.data, "t10k")
    parameters = jax.tree.leaves(equinox.filter(model, equinox.is_inexact_array))
    report(jax.vmap(model)(test.inputs), test, arguments.save, parameters)
    hvd.shutdown()


if __name__ == "__main__":
    main()
