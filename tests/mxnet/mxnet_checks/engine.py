"""MXNet's engine runs collectives: nothing blocks, and orders that differ between ranks harm nobody."""

import warnings
from typing import Any, Callable, Dict

import farandole.mxnet as hvd
import mxnet as mx
import numpy
from farandole.mxnet import arrays as placement
from harness import Checks

from .holding import held

check = Checks()


def ones(*shape: int) -> mx.nd.NDArray:
    return mx.nd.ones(shape)


BLOCKS_NOBODY: Dict[str, Callable[[str], Any]] = {
    "allreduce": lambda name: hvd.allreduce(ones(4), op=hvd.Sum, name=name),
    "allreduce_": lambda name: hvd.allreduce_(ones(4), op=hvd.Sum, name=name),
    "grouped_allreduce": lambda name: hvd.grouped_allreduce([ones(4), ones(4)], op=hvd.Sum, name=name)[1],
    "grouped_allreduce_": lambda name: hvd.grouped_allreduce_([ones(4), ones(4)], op=hvd.Sum, name=name)[1],
    "reducescatter": lambda name: hvd.reducescatter(ones(4 * hvd.size()), op=hvd.Sum, name=name),
    "grouped_reducescatter": lambda name: hvd.grouped_reducescatter([ones(4 * hvd.size())], op=hvd.Sum, name=name)[0],
    "broadcast": lambda name: hvd.broadcast(ones(4) * hvd.size(), 0, name=name),
    "broadcast_": lambda name: hvd.broadcast_(ones(4) * hvd.size(), 0, name=name),
}


@check.each(*BLOCKS_NOBODY)
def a_call_returns_before_the_others_have_made_it(operation: str) -> None:
    """The last rank makes its call when those of the others have returned."""
    is_last = hvd.rank() == hvd.size() - 1
    if is_last:
        hvd.barrier()
    later = BLOCKS_NOBODY[operation](f"late.{operation}") * 2
    if not is_last:
        hvd.barrier()
    assert later.asnumpy().tolist() == [2 * hvd.size()] * 4


AWAITS_CALLS: Dict[str, Callable[[mx.nd.NDArray], mx.nd.NDArray]] = {
    "allgather": hvd.allgather,
    "grouped_allgather": lambda given: hvd.grouped_allgather([given])[0],
    "alltoall": hvd.alltoall,
    "gather": lambda given: hvd.gather(given, 0),
    "scatter": lambda given: hvd.scatter(given, 0),
}


@check.each(*AWAITS_CALLS)
def a_call_that_needs_the_others_rows_awaits_no_array(operation: str) -> None:
    """It returns on all ranks while the engines still compute what it sends."""
    given = ones(hvd.size())
    given.wait_to_read()
    with held(written=[given]):
        result = AWAITS_CALLS[operation](given)
        hvd.barrier()
    assert (result.asnumpy() == 1).all()


@check
def calls_of_one_name_pair_in_the_order_of_the_program() -> None:
    """Although the inputs of the first are ready last, on one rank."""
    slow = mx.nd.ones((400, 400)) / 400
    for name in ("again", None):
        if hvd.rank() == 0:
            for _ in range(20):
                slow = mx.nd.dot(slow, mx.nd.ones((400, 400)) / 400)
        first = slow[0:1, 0:1] * 0 + 1
        results = [hvd.allreduce(first, op=hvd.Sum, name=name)]
        results += [hvd.allreduce(mx.nd.full((1, 1), value), op=hvd.Sum, name=name) for value in range(2, 100)]
        for value, result in enumerate(results, 1):
            assert result.asnumpy().tolist() == [[value * hvd.size()]], (name, value, result)


@check
def arrays_in_onednns_order_are_read_and_written_in_rows() -> None:
    images = mx.nd.random.uniform(shape=(2, 16, 8, 8))
    weights = mx.nd.random.uniform(shape=(32, 16, 3, 3))

    def convolved() -> mx.nd.NDArray:
        return mx.nd.Convolution(images, weights, no_bias=True, kernel=(3, 3), num_filter=32)

    wanted = hvd.allreduce(mx.nd.array(convolved().asnumpy()), op=hvd.Max).asnumpy()
    for result in (
        hvd.allreduce(convolved(), op=hvd.Max),
        hvd.allreduce_(convolved(), op=hvd.Max),
        hvd.grouped_allreduce([convolved()], op=hvd.Max)[0],
    ):
        numpy.testing.assert_array_equal(result.asnumpy(), wanted)
    gathered = hvd.allgather(convolved()).asnumpy()
    mine = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    numpy.testing.assert_array_equal(gathered[mine], convolved().asnumpy())


@check
def arrays_that_are_dropped_at_once_live_until_the_end() -> None:
    for number in range(200):
        hvd.allreduce(mx.nd.ones(1000), name=f"dropped.{number % 10}")
        hvd.allreduce_(mx.nd.ones(1000), name=f"dropped_too.{number % 10}")
    mx.nd.waitall()


@check
def the_steady_state_asks_the_coordinator_nothing() -> None:
    def step() -> None:
        hvd.allreduce(mx.nd.ones(3)).wait_to_read()
        hvd.allreduce(mx.nd.ones(3), name="steady").wait_to_read()
        hvd.allgather(mx.nd.ones((hvd.rank() + 1, 2)), name="steady_rows").wait_to_read()

    for _ in range(70):
        step()
    hvd.barrier()
    before = hvd.counters().coordinator_messages
    for _ in range(20):
        step()
    assert hvd.counters().coordinator_messages == before


@check
def arrays_of_a_gpu_travel_through_the_host_with_one_notice() -> None:
    """Of an imitated one: this MXNet has none, and a second device of the processor stands for it."""
    device = mx.cpu(1)
    real, placement.is_on_host = placement.is_on_host, lambda array: array.context != device
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mine = mx.nd.full((3,), hvd.rank() + 1, ctx=device)
            total = sum(range(1, hvd.size() + 1))
            result = hvd.allreduce(mine, op=hvd.Sum)
            assert result.context == device and result.asnumpy().tolist() == [total] * 3
            assert hvd.allreduce_(mine, op=hvd.Sum) is mine and mine.asnumpy().tolist() == [total] * 3
            assert mine.context == device
            assert hvd.allgather(mine).context == device and hvd.broadcast_(mine, 0).context == device
            for call in (hvd.reducescatter, hvd.alltoall):
                assert call(mx.nd.ones(hvd.size(), ctx=device)).context == device
            assert hvd.gather(mine, 0).context == device and hvd.scatter(mine, 0).context == device
        told = [str(each.message) for each in caught if "host" in str(each.message)]
        assert len(told) == 1 and "cpu(1)" in told[0], told
    finally:
        placement.is_on_host = real
