"""Ranks that disagree get both values in a sentence when they wait, and the job goes on."""

from typing import Callable

import farandole.mxnet as hvd
import mxnet as mx
from harness import Checks, expect_error

check = Checks()


def last() -> bool:
    return hvd.rank() == hvd.size() - 1


def goes_on() -> None:
    assert hvd.allreduce(mx.nd.ones(2), op=hvd.Sum, name="goes_on").asnumpy()[0] == hvd.size()
    mx.nd.waitall()


def told(call: Callable[[], mx.nd.NDArray], *words: str) -> None:
    """The call returns, and waiting tells what is wrong, as both kinds of errors that programs may look for."""
    result = call()
    expect_error(ValueError, result.wait_to_read, *words)
    expect_error(mx.base.MXNetError, call().asnumpy, *words)
    goes_on()


@check
def shapes_that_differ_are_told() -> None:
    if hvd.size() > 1:
        mine = mx.nd.ones((2, 3) if last() else (3, 2))
        told(lambda: hvd.allreduce(mine, name="shapes"), "shapes", "[3,2]", "[2,3]")
        told(lambda: hvd.allreduce(mine), "allreduce.noname", "[3,2]", "[2,3]")
        told(lambda: hvd.allgather(mine, name="gathered"), "gathered", "[*,2]", "[*,3]")


@check
def an_array_in_place_may_be_used_again() -> None:
    if hvd.size() > 1:
        mine = mx.nd.ones(2 if last() else 3)
        hvd.allreduce_(mine, name="in_place")
        expect_error(ValueError, mine.asnumpy, "in_place", "[2]", "[3]")
        mine[:] = 4
        assert mine.asnumpy().tolist() == [4] * len(mine)
        goes_on()


@check
def types_reductions_and_roots_that_differ_are_told() -> None:
    if hvd.size() > 1:
        mine = mx.nd.ones(2, dtype="float32" if last() else "float64")
        told(lambda: hvd.allreduce(mine, name="types"), "types", "dtype")
        op = hvd.Max if last() else hvd.Sum
        told(lambda: hvd.allreduce(mx.nd.ones(2), op=op, name="ops"), "ops")
        root = 1 if last() else 0
        told(lambda: hvd.broadcast(mx.nd.ones(2), root, name="roots"), "roots", "root")


@check
def numbers_of_grouped_arrays_that_differ_are_told() -> None:
    if hvd.size() > 1:
        arrays = [mx.nd.ones(2)] * (2 if last() else 3)
        told(lambda: hvd.grouped_allreduce(arrays, name="counts")[0], "counts", "3 grouped", "2 grouped")


@check
def parameters_that_differ_are_told() -> None:
    if hvd.size() > 1:
        names = ["a", "c"] if last() else ["a", "b"]
        given = {name: mx.nd.ones(2) for name in names}
        expect_error(ValueError, lambda: hvd.broadcast_parameters(given), ".b: ", "c in its place")
        fewer = {"a": mx.nd.ones(2)} if last() else given
        expect_error(ValueError, lambda: hvd.broadcast_parameters(fewer), "no such tensor")
        goes_on()


@check
def an_error_reaches_what_was_computed_from_the_result() -> None:
    if hvd.size() > 1:
        result = hvd.allreduce(mx.nd.ones(2 if last() else 3), name="chain") * 2 + 1
        expect_error(ValueError, result.asnumpy, "chain", "[2]", "[3]")
        goes_on()


@check
def arguments_that_are_wrong_are_named_at_once() -> None:
    array = mx.nd.ones(2)
    expect_error(ValueError, lambda: hvd.allreduce(array, op=77), "77")
    expect_error(ValueError, lambda: hvd.allreduce([1, 2]), "NDArray", "list")
    expect_error(ValueError, lambda: hvd.allreduce(array, prescale_factor="a"), "prescale_factor")
    expect_error(ValueError, lambda: hvd.broadcast(array, "a"), "root_rank")
    expect_error(ValueError, lambda: hvd.allreduce(array, name=7), "name")
    expect_error(ValueError, lambda: hvd.allreduce(array, name="a\0b"), "NUL")
    expect_error(ValueError, lambda: hvd.allreduce(array, process_set=3), "ProcessSet")
    expect_error(ValueError, lambda: hvd.grouped_allreduce(3), "list of arrays")
    sparse = mx.nd.sparse.row_sparse_array(([[1, 2]], [0]), shape=(3, 2))
    expect_error(ValueError, lambda: hvd.allreduce(sparse), "row_sparse", "tostype")
    expect_error(ValueError, lambda: hvd.broadcast(array, 99).asnumpy(), "99")
    goes_on()


@check
def parameters_that_are_wrong_are_named() -> None:
    expect_error(ValueError, lambda: hvd.broadcast_parameters([1]), "dictionary", "list")
    expect_error(ValueError, lambda: hvd.broadcast_parameters({}, prefix=3), "prefix")
    expect_error(ValueError, lambda: hvd.DistributedTrainer({}, "sgd", prefix=3), "prefix")
    expect_error(
        ValueError, lambda: hvd.DistributedTrainer({}, "sgd", gradient_predivide_factor=0), "gradient_predivide_factor"
    )
