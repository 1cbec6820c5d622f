"""A rank of JAX: `farandole run -np N python jax_rank.py farandole SOCKET`, or with RANK, WORLD_SIZE and MASTER_PORT in its
environment `python jax_rank.py own SOCKET`, which is jax.distributed with its collectives over Gloo. All run in jax.jit."""

import os
import sys
from typing import Any, Callable, List

import jax
import jax.numpy as jnp
import numpy
from framework_orders import CHAINED_CALLS, RATE, Exercise, Training, batch, parameters
from orders import Order, serve

Arrays = List[Any]


def _loss(values: Arrays, inputs: Any, classes: Any) -> Any:
    for weight, bias in zip(values[:-2:2], values[1:-2:2]):
        inputs = jax.nn.relu(inputs @ weight + bias)
    scores = jax.nn.log_softmax(inputs @ values[-2] + values[-1])
    return -jnp.take_along_axis(scores, classes[:, None], 1).mean()


class _Contender:
    """`all_reduce` sums a list of arrays over the ranks, within what `compiled` compiles."""

    def __init__(self, name: str, place: List[int], all_reduce: Callable[[Arrays], Arrays], compiled: Any) -> None:
        self.name = name
        self.rank, self.size = place
        self._all_reduce, self._compiled = all_reduce, compiled
        self._reduce = self._compiled(all_reduce)
        self._none = [self.make(numpy.zeros(1, numpy.float32))]

    def make(self, array: numpy.ndarray) -> Any:
        """An array of JAX."""
        return jnp.asarray(array)

    def read(self, array: Any) -> numpy.ndarray:
        """Its elements."""
        return numpy.asarray(array)

    def reduce(self, arrays: Arrays) -> Arrays:
        """The sums."""
        return jax.block_until_ready(self._reduce(arrays))

    def barrier(self) -> None:
        """Of all ranks."""
        self.reduce(self._none)

    def exercise(self, order: Order) -> Exercise:
        """A collective."""
        return Exercise(order, [self.rank, self.size], self.make, self.reduce, self.read)

    def training(self, model: str, how: str) -> Training:
        """`how`: "alone", without communication, or this way."""
        if model == "chain":
            return self._chained(how)
        inputs, classes = map(jnp.asarray, batch(self.rank))

        def step(values: Arrays) -> Arrays:
            gradients = jax.grad(_loss)(values, inputs, classes)
            if how != "alone":
                gradients = self._all_reduce(gradients)
            return [value - RATE / self.size * gradient for value, gradient in zip(values, gradients)]

        run, make, read = self._way(how, step)
        return Training([make(each) for each in parameters()], lambda values: jax.block_until_ready(run(values)), read)

    def _way(self, how: str, step: Callable[[Arrays], Arrays]) -> Any:
        """The compiled step, and what makes and reads its arrays."""
        if how == "alone":
            return jax.jit(step), jnp.asarray, numpy.asarray
        return self._compiled(step), self.make, self.read

    def _chained(self, how: str) -> Training:
        def step_of(arrays: Arrays) -> Arrays:
            for _ in range(CHAINED_CALLS):
                arrays = jax.lax.optimization_barrier(arrays) if how == "alone" else self._all_reduce(arrays)
            return arrays

        run, make, read = self._way(how, step_of)
        ones = [make(numpy.ones(1, numpy.float32))]
        return Training([], lambda _: jax.block_until_ready(run(ones)), read)


class _Distributed(_Contender):
    """Arrays lie on a mesh of all processes, one part on each."""

    def __init__(self) -> None:
        self._mesh = jax.make_mesh((jax.process_count(),), ("ranks",))
        self._spread = jax.sharding.NamedSharding(self._mesh, jax.P("ranks"))
        place = [jax.process_index(), jax.process_count()]
        super().__init__("own", place, lambda arrays: jax.lax.psum(arrays, "ranks"), self._mapped)

    def _mapped(self, call: Callable[[Arrays], Arrays]) -> Any:
        """Each process's part has one row."""

        def of_rows(arrays: Arrays) -> Arrays:
            return [each[None] for each in call([array[0] for array in arrays])]

        spec = jax.P("ranks")
        return jax.jit(jax.shard_map(of_rows, mesh=self._mesh, in_specs=(spec,), out_specs=spec, check_vma=False))

    def make(self, array: numpy.ndarray) -> Any:
        """See _Contender."""
        return jax.make_array_from_process_local_data(self._spread, array[None])

    def read(self, array: Any) -> numpy.ndarray:
        """See _Contender."""
        return numpy.asarray(array.addressable_data(0))[0]


def _farandole() -> None:
    import farandole.jax as hvd

    hvd.init()
    place = [hvd.rank(), hvd.size()]
    serve(_Contender("farandole", place, lambda arrays: hvd.grouped_allreduce(arrays, op=hvd.Sum), jax.jit))
    hvd.shutdown()


def _own() -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"127.0.0.1:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
    serve(_Distributed())


if __name__ == "__main__":
    {"farandole": _farandole, "own": _own}[sys.argv[1]]()
