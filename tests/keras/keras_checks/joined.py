"""Ranks that have fewer batches than the others, and join."""

import itertools
from typing import Any

import numpy
from harness import Checks

from keras_checks.chosen import hvd
from keras_checks.training import ROWS, STEPS, assert_close, batch, compiled, model, own, sgd, train

check = Checks()


def rows_of_others(step: int) -> Any:
    """The whole batch of a step without rank 0's rows."""
    return [array[ROWS:] for array in batch(step)]


STEPS_OF_RANK_0 = 2


def trained_alone(steps_of_rank_0: int) -> Any:
    """The weights after training in one process. A rank that has joined gives gradients of zero, and counts in the mean."""
    net, size = compiled(model(), sgd()), hvd.size()
    train(net, range(steps_of_rank_0), batch)
    if size > 1:
        net.optimizer.learning_rate = 0.1 * (size - 1) / size
        train(net, range(steps_of_rank_0, STEPS), rows_of_others)
        net.optimizer.learning_rate = 0.1
    train(net, [STEPS], batch)
    return net.get_weights()


@check.each(*itertools.product(("compiled", "eager"), (STEPS_OF_RANK_0, 0)))
def a_rank_with_fewer_batches_joins(way: str, steps_of_rank_0: int) -> None:
    size = hvd.size()
    steps_of_rank_0 = steps_of_rank_0 if size > 1 else STEPS
    net = compiled(model(), hvd.DistributedOptimizer(sgd()), way == "eager")
    net.optimizer.build(net.trainable_variables)
    train(net, range(steps_of_rank_0 if hvd.rank() == 0 else STEPS), own)
    last = hvd.join()
    assert hvd.allgather_object(last) == [last] * size and (last > 0 or size == 1), last
    hvd.broadcast_variables([*net.weights, *net.optimizer.variables], last)
    train(net, [STEPS], own)
    assert_close(net.get_weights(), trained_alone(steps_of_rank_0))
    for other in hvd.allgather_object(net.get_weights()):
        assert all((one == mine).all() for one, mine in zip(other, net.get_weights()))


@check
def values_travel_beside_a_rank_that_has_joined() -> None:
    size, rank = hvd.size(), hvd.rank()
    if rank > 0:
        others = range(1, size)
        assert float(hvd.allreduce(float(rank), op=hvd.Sum)) == sum(others)
        assert abs(float(hvd.allreduce(float(rank))) - sum(others) / size) < 1e-6
        gathered = numpy.asarray(hvd.allgather(numpy.full([rank], rank, numpy.int32)))
        assert gathered.tolist() == [each for each in others for _ in range(each)]
        assert numpy.asarray(hvd.broadcast(numpy.array([rank]), size - 1)).tolist() == [size - 1]
    hvd.join()
    assert float(hvd.allreduce(1.0, op=hvd.Sum, name="after")) == size, "the job goes on"
