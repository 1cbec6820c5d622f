"""Process sets: the job's ranks are shared by two, which train apart, each as one process with the set's rows."""

import contextlib
import functools
from typing import Any, Iterator, List

import numpy
from harness import Checks, expect_error

from keras_checks.chosen import IS_LEGACY, hvd, keras
from keras_checks.own_loops import apply, built, variables
from keras_checks.presence import values_of
from keras_checks.training import ROWS, STEPS, assert_close, batch, compiled, loss_scaled, model, own, sgd, train
from keras_checks.values import as_compiled

check = Checks()


@contextlib.contextmanager
def sets() -> Iterator[Any]:
    """This rank's set: that of the even ranks, or of the odd ones. In a job of one rank it is the global one."""
    size = hvd.size()
    made = [hvd.add_process_set(list(range(first, size, 2))) for first in range(2)] if size > 1 else []
    yield made[hvd.rank() % 2] if made else hvd.global_process_set
    for each in made:
        hvd.remove_process_set(each)


def rows_of(process_set: Any, step: int) -> Any:
    """Those of the set's ranks in the whole batch of a step."""
    rows = [row for rank in process_set.ranks for row in range(ROWS * rank, ROWS * (rank + 1))]
    return [array[rows] for array in batch(step)]


def expect_apart(weights: List[Any]) -> None:
    """Fails if the sets have the same weights."""
    of_all = hvd.allgather_object(weights[0].tolist())
    assert hvd.size() == 1 or of_all[0] != of_all[1], of_all


@check.each("compiled", "eager", "predivided", "passes")
def two_sets_train_apart(way: str) -> None:
    """The one of the even ranks has a step more, in which the other has no part."""
    options = {
        "predivided": {"gradient_predivide_factor": 2.0},
        "passes": {"backward_passes_per_step": 2, "average_aggregated_gradients": True},
    }
    steps = range(STEPS - hvd.rank() % 2)
    with sets() as process_set:
        optimizer = hvd.DistributedOptimizer(sgd(), process_set=process_set, **options.get(way, {}))
        net = compiled(model(), optimizer, way == "eager")
        train(net, [step for step in steps for _ in range(2 if way == "passes" else 1)], own)
        alone = compiled(model(), sgd())
        train(alone, steps, functools.partial(rows_of, process_set))
        assert_close(net.get_weights(), alone.get_weights())
        expect_apart(net.get_weights())


@check
def a_local_layer_counts_the_ranks_of_its_set() -> None:
    with sets() as process_set:
        net = model()
        optimizer = hvd.PartialDistributedOptimizer(
            keras.optimizers.SGD(0.1), local_layers=net.layers[0], process_set=process_set
        )
        before = net.get_weights()
        train(compiled(net, optimizer), [0], own)
        changes = [mine - first for mine, first in zip(net.get_weights(), before)]
        alone = compiled(model(), keras.optimizers.SGD(0.1))
        train(alone, [0], functools.partial(rows_of, process_set))
        wanted = [one - first for one, first in zip(alone.get_weights(), before)]
        # Of the local layer's gradients, each divided by the number of ranks, the sum is the whole batch's.
        of_set = hvd.allgather_object([each.tolist() for each in changes[:2]], process_set=process_set)
        changes[:2] = [sum(map(numpy.array, each)) for each in zip(*of_set)]
        for found, one in zip(changes, wanted):
            numpy.testing.assert_allclose(found, one, rtol=1e-3, atol=1e-6)


@check
def each_set_trains_variables_of_its_own() -> None:
    with sets() as process_set:
        net = model()
        net.layers[hvd.rank() % 2].trainable = False
        before = net.get_weights()
        train(compiled(net, hvd.DistributedOptimizer(sgd(), process_set=process_set)), range(2), own)
        have_changed = [bool((one != other).any()) for one, other in zip(before, net.get_weights())]
        assert have_changed == ([False] * 2 + [True] * 2)[:: -1 if hvd.rank() % 2 else 1], have_changed


@check
def a_gradient_that_a_rank_of_a_set_lacks_is_zero() -> None:
    with sets() as process_set:
        trained = variables("a", "b")
        optimizer = built(trained, process_set=process_set)
        position, count = process_set.rank(), process_set.size()
        for step in range(1, 3):
            # Rank 1 has no part in what the others lack.
            given = [12.0 if position == 0 else None, 12.0 if position == count - 1 else None]
            apply(optimizer, given, trained)
            assert values_of(trained) == [-12.0 / count * step] * 2, values_of(trained)


@check
def a_variable_that_is_frozen_on_one_rank_of_a_set_is_named() -> None:
    with sets() as process_set:
        net = model()
        is_split = process_set.size() > 1
        net.layers[0].trainable = process_set.rank() == 0
        compiled(net, hvd.DistributedOptimizer(sgd(), process_set=process_set))
        if is_split:
            words = [f"rank {process_set.ranks[0]} has a gradient", f"and rank {process_set.ranks[1]} has none"]
            # AutoGraph, which tf-keras has, makes another error of it.
            expect_error(Exception if IS_LEGACY else ValueError, lambda: train(net, [0], own), *words)
        else:
            train(net, [0], own)


@check
def ranks_of_a_set_leave_out_the_same_steps() -> None:
    with sets() as process_set:
        optimizer = hvd.DistributedOptimizer(loss_scaled(keras.optimizers.SGD(0.1), 4.0), process_set=process_set)
        net = compiled(model(), optimizer)
        before = net.get_weights()
        inputs, targets = own(0)
        # Of the even ranks' gradients one is not finite.
        net.fit(inputs * (numpy.inf if hvd.rank() == 0 else 1.0), targets, batch_size=ROWS, verbose=0)
        is_left_out = all((one == other).all() for one, other in zip(before, net.get_weights()))
        assert is_left_out == (hvd.rank() % 2 == 0)


@check
def values_travel_in_a_set() -> None:
    with sets() as process_set:
        ranks, rank = process_set.ranks, hvd.rank()
        terms = {"process_set": process_set}
        assert float(hvd.allreduce(float(rank), op=hvd.Sum, **terms)) == sum(ranks)
        assert float(hvd.allreduce(numpy.float32(rank), name="mean", **terms)) == sum(ranks) / len(ranks)
        gathered = hvd.allgather(numpy.full([rank + 1, 2], rank, numpy.int32), **terms)
        assert numpy.asarray(gathered).tolist() == [[each, each] for each in ranks for _ in range(each + 1)]
        # A root is a rank of the job.
        assert numpy.asarray(hvd.broadcast(numpy.array([rank]), ranks[-1], **terms)).tolist() == [ranks[-1]]
        rows = numpy.arange(len(ranks), dtype=numpy.float32)
        own_row = numpy.asarray(hvd.reducescatter(rows, op=hvd.Sum, **terms))
        assert own_row.tolist() == [process_set.rank() * len(ranks)]
        net = model()
        net.set_weights([each + rank for each in net.get_weights()])
        hvd.broadcast_variables(net.weights, ranks[-1], **terms)
        assert_close(net.get_weights(), [each + ranks[-1] for each in model().get_weights()])


@check
def values_travel_in_compiled_functions_of_a_set() -> None:
    with sets() as process_set:

        def step(value: Any) -> Any:
            terms = {"process_set": process_set}
            gathered = hvd.allgather(value, **terms)
            return hvd.allreduce(value, op=hvd.Sum, **terms), hvd.broadcast(value, root, **terms), gathered

        root, count = process_set.ranks[-1], process_set.size()
        value = numpy.arange(3, dtype=numpy.float32) + hvd.rank()
        total, same, gathered = (numpy.asarray(each) for each in as_compiled(step)(value))
        assert total.tolist() == [count * each + sum(process_set.ranks) for each in range(3)]
        assert same.tolist() == [each + root for each in range(3)]
        assert gathered.tolist() == [each + rank for rank in process_set.ranks for each in range(3)]
