"""Collectives and a model to train for the ranks of TensorFlow, JAX and MXNet, on arrays that the framework makes."""

from typing import Any, Callable, List, Sequence

import numpy
from orders import Order

# The shapes of the model's layers, the rows of a rank's batch, and the step's size: as the `mlp` of models.py.
LAYERS = [(2048, 2048)] * 6 + [(2048, 10)]
ROWS = 64
RATE = 0.001
# Of a step that is nothing but small calls, each on the result of the one before.
CHAINED_CALLS = 100

Arrays = List[Any]


class Exercise:
    """A collective. `reduce` gives the sums of a list of arrays over the ranks, and returns when they are there."""

    def __init__(
        self,
        order: Order,
        place: Sequence[int],
        make: Callable[[numpy.ndarray], Any],
        reduce: Callable[[Arrays], Arrays],
        read: Callable[[Any], numpy.ndarray] = numpy.asarray,
    ) -> None:
        """`place`: rank and size; `make` and `read`: of one array."""
        self._count, self._tensors = order["count"], order["tensors"]
        self._rank, self._size = place
        self._make, self._reduce, self._read = make, reduce, read
        self.arrays: Arrays = []

    def rewrite(self, turn: int) -> None:
        """Each rank's contribution."""
        value = self._rank + 1 + turn % 4
        self.arrays = [self._make(numpy.full(self._count, value, numpy.float32)) for _ in range(self._tensors)]

    def step(self) -> None:
        """Once."""
        self.arrays = self._reduce(self.arrays)

    def count_wrong(self, turn: int) -> int:
        """Elements that are not the sum over the ranks."""
        expected = self._size * (self._size + 1) // 2 + self._size * (turn % 4)
        return sum(int((self._read(array) != expected).sum()) for array in self.arrays)


class Training:
    """Steps of a model. `step` takes the parameters and returns those after it, when they are there."""

    def __init__(
        self, parameters: Arrays, step: Callable[[Arrays], Arrays], read: Callable[[Any], numpy.ndarray]
    ) -> None:
        self._parameters, self._step, self._read = parameters, step, read

    def step(self) -> None:
        """Forward, backward, and the optimizer's step."""
        self._parameters = self._step(self._parameters)

    def digest(self) -> str:
        """Equal on two ranks only if their parameters are equal to the bit."""
        views = [numpy.ascontiguousarray(self._read(each)).view(numpy.int32) for each in self._parameters]
        return str(sum(int(view.astype(numpy.int64).sum()) for view in views))


def parameters() -> List[numpy.ndarray]:
    """The model's first weights and biases, alike on all ranks."""
    random = numpy.random.RandomState(7)
    made = []
    for inputs, outputs in LAYERS:
        made.append(((random.rand(inputs, outputs) - 0.5) / inputs**0.5).astype(numpy.float32))
        made.append(numpy.zeros(outputs, numpy.float32))
    return made


def batch(rank: int) -> List[numpy.ndarray]:
    """Inputs and classes of a rank."""
    random = numpy.random.RandomState(rank)
    inputs = random.randn(ROWS, LAYERS[0][0]).astype(numpy.float32)
    return [inputs, random.randint(LAYERS[-1][1], size=ROWS).astype(numpy.int32)]
