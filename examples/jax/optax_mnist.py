"""Trains a multilayer perceptron on Fashion-MNIST with JAX and Optax.

    .venv/bin/farandole run -np 2 .venv-jax/bin/python examples/jax/optax_mnist.py

The gradients are reduced within the compiled step. With any number of workers it trains to the same parameters, as far
as rounding goes, since --batch-size counts the images of all of them.
"""

from typing import Any, Tuple

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import optax
from task import parse_arguments, read_images, report, shares

SIZES = (784, 128, 10)


def first_parameters(key: jax.Array) -> Any:
    keys = jax.random.split(key, len(SIZES) - 1)
    return [
        {"weights": jax.random.normal(each, (before, after)) / before**0.5, "bias": jnp.zeros(after)}
        for each, before, after in zip(keys, SIZES, SIZES[1:])
    ]


def logits_of(params: Any, inputs: jax.Array) -> jax.Array:
    for layer in params[:-1]:
        inputs = jax.nn.relu(inputs @ layer["weights"] + layer["bias"])
    return inputs @ params[-1]["weights"] + params[-1]["bias"]


def loss_of(params: Any, inputs: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits_of(params, inputs), labels).mean()


def main() -> None:
    arguments = parse_arguments(__doc__)
    hvd.init()
    params = hvd.broadcast_parameters(first_parameters(jax.random.key(hvd.rank())), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1, momentum=0.9))
    state = optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any, inputs: jax.Array, labels: jax.Array) -> Tuple[Any, Any, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(params, inputs, labels)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, hvd.allreduce(loss)

    for number, (inputs, labels) in enumerate(
        shares(read_images(arguments.data, "train"), arguments.batch_size, arguments.steps)
    ):
        params, state, loss = step(params, state, inputs, labels)
        if hvd.rank() == 0 and number % 100 == 0:
            print(f"step {number}: loss of all workers {loss:.4f}")
    test = read_images(arguments.data, "t10k")
    report(logits_of(params, test.inputs), test, arguments.save, jax.tree.leaves(params))
    hvd.shutdown()


if __name__ == "__main__":
    main()
