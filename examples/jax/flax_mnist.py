"""Trains a model of Flax NNX on Fashion-MNIST.

    .venv/bin/farandole run -np 2 .venv-jax/bin/python examples/jax/flax_mnist.py

NNX keeps parameters in objects: broadcast_parameters gives the root's, and nnx.update puts them into the model.
"""

import farandole.jax as hvd
import jax
import optax
from flax import nnx
from task import parse_arguments, read_images, report, shares


class Model(nnx.Module):
    """Two layers."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(784, 128, rngs=rngs)
        self.out = nnx.Linear(128, 10, rngs=rngs)

    def __call__(self, inputs: jax.Array) -> jax.Array:
        return self.out(nnx.relu(self.hidden(inputs)))


def loss_of(model: Model, inputs: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(model(inputs), labels).mean()


@nnx.jit
def step(model: Model, optimizer: nnx.Optimizer, inputs: jax.Array, labels: jax.Array) -> None:
    optimizer.update(model, nnx.grad(loss_of)(model, inputs, labels))


def main() -> None:
    arguments = parse_arguments(__doc__)
    hvd.init()
    model = Model(nnx.Rngs(hvd.rank()))
    nnx.update(model, hvd.broadcast_parameters(nnx.state(model), root_rank=0))
    optimizer = nnx.Optimizer(model, hvd.DistributedOptimizer(optax.sgd(0.1, momentum=0.9)), wrt=nnx.Param)
    for inputs, labels in shares(read_images(arguments.data, "train"), arguments.batch_size, arguments.steps):
        step(model, optimizer, inputs, labels)
    test = read_images(arguments.data, "t10k")
    report(model(test.inputs), test, arguments.save, jax.tree.leaves(nnx.state(model, nnx.Param)))
    hvd.shutdown()


if __name__ == "__main__":
    main()
