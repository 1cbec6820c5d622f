"""Operations on values, and the variables that one rank gives to all."""

from typing import Any

import numpy
from harness import Checks, expect_error

from keras_checks.chosen import BACKEND, hvd, keras
from keras_checks.training import assert_close, model

check = Checks()


@check
def values_travel() -> None:
    rank, size = hvd.rank(), hvd.size()
    total = hvd.allreduce(numpy.float32(rank), op=hvd.Sum, name="total")
    assert float(total) == sum(range(size))
    assert float(hvd.allreduce(float(rank))) == sum(range(size)) / size
    gathered = hvd.allgather(numpy.full([rank + 1, 2], rank, numpy.int32))
    assert numpy.asarray(gathered).tolist() == [[each, each] for each in range(size) for _ in range(each + 1)]
    assert numpy.asarray(hvd.broadcast(numpy.array([rank]), size - 1)).tolist() == [size - 1]
    own_row = hvd.reducescatter(numpy.arange(size, dtype=numpy.float32), op=hvd.Sum)
    assert numpy.asarray(own_row).tolist() == [rank * size]
    net = model()
    net.set_weights([each + rank for each in net.get_weights()])
    hvd.broadcast_variables(net.weights, size - 1)
    assert_close(net.get_weights(), [each + size - 1 for each in model().get_weights()])
    seeds = keras.layers.Dropout(0.5, seed=rank).variables
    hvd.broadcast_variables(seeds, size - 1)
    assert all(each.numpy()[0] == size - 1 for each in seeds)


@check
def models_that_differ_are_told() -> None:
    rank, size = hvd.rank(), hvd.size()
    if size > 1:
        weights = model().weights[: 3 if rank == size - 1 else 4]
        expect_error(ValueError, lambda: hvd.broadcast_variables(weights, 0), "no such tensor", "shape [1]")
        assert float(hvd.allreduce(1.0, op=hvd.Sum)) == size, "the job goes on"


def as_compiled(function: Any) -> Any:
    """The function, as the backend compiles functions; PyTorch runs it as it is."""
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "torch":
        return function
    import tensorflow

    return tensorflow.function(function)


@check
def values_travel_in_compiled_functions() -> None:
    size = hvd.size()

    def step(value: Any) -> Any:
        return hvd.allreduce(value, op=hvd.Sum), hvd.broadcast(value, 0), hvd.allgather(value), hvd.reducescatter(value)

    value = numpy.arange(2 * size, dtype=numpy.float32)
    total, same, gathered, part = (numpy.asarray(each) for each in as_compiled(step)(value))
    assert total.tolist() == (value * size).tolist() and same.tolist() == value.tolist()
    assert gathered.tolist() == value.tolist() * size
    assert part.tolist() == value[2 * hvd.rank() : 2 * hvd.rank() + 2].tolist()
