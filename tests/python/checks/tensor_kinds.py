"""Every kind of tensor and array, given to every operation: the result is right, or a sentence refuses it."""

import pathlib
import re
import tempfile
import warnings
from typing import Any, Callable, Dict, Iterator, Tuple

import farandole.numpy as hvd_numpy
import farandole.torch as hvd
import numpy
import torch
from harness import ROOT, Checks, expect_error

check = Checks()


def operations() -> Dict[str, Tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]]:
    """By name: the operation, and what it gives on this rank for a tensor that is the same on all ranks."""
    size, rank = hvd.size(), hvd.rank()

    def part(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.tensor_split(size)[rank] * size

    def summed(tensor: torch.Tensor) -> torch.Tensor:
        return tensor * size

    def rows(tensor: torch.Tensor) -> torch.Tensor:
        return torch.cat([tensor.reshape(1) if tensor.dim() == 0 else tensor] * size)

    def pad(found: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return found if rank == 0 else like

    def exchange(tensor: torch.Tensor) -> torch.Tensor:
        return hvd.alltoall(torch.cat([tensor] * size) if size > 1 else tensor)

    return {
        "allreduce": (lambda x: hvd.allreduce(x, op=hvd.Sum), summed),
        "allreduce_": (lambda x: hvd.allreduce_(x, op=hvd.Sum), summed),
        "allreduce_async": (lambda x: hvd.allreduce_async(x, op=hvd.Sum).synchronize(), summed),
        "allreduce_async_": (lambda x: hvd.allreduce_async_(x, op=hvd.Sum).synchronize(), summed),
        "grouped_allreduce": (lambda x: hvd.grouped_allreduce([x, x], op=hvd.Sum)[1], summed),
        "grouped_allreduce_": (lambda x: hvd.grouped_allreduce_([x, x.clone()], op=hvd.Sum)[0], summed),
        "broadcast": (lambda x: hvd.broadcast(x, size - 1), lambda x: x),
        "broadcast_": (lambda x: hvd.broadcast_(x, size - 1), lambda x: x),
        "allgather": (hvd.allgather, rows),
        "grouped_allgather": (lambda x: hvd.grouped_allgather([x, x])[1], rows),
        "alltoall": (exchange, rows),
        "gather": (lambda x: hvd.broadcast(pad(hvd.gather(x, 0), rows(x)), 0), rows),
        "scatter": (lambda x: hvd.scatter(torch.cat([x] * size) if size > 1 else x, 0), lambda x: x),
        "reducescatter": (lambda x: hvd.reducescatter(x, op=hvd.Sum), part),
        "grouped_reducescatter": (lambda x: hvd.grouped_reducescatter([x, x], op=hvd.Sum)[1], part),
    }


NEED_ROWS = ("alltoall", "scatter", "reducescatter", "grouped_reducescatter")


def negative() -> torch.Tensor:
    """It has torch's negative bit, and is contiguous."""
    return torch.view_as_complex(torch.arange(8.0).reshape(4, 2)).conj().imag.contiguous()


def negative_of_one() -> torch.Tensor:
    return torch.tensor([1 + 2j]).conj().imag


def windows() -> torch.Tensor:
    return torch.arange(6.0).unfold(0, 3, 1)


TAKEN: Dict[str, Callable[[], torch.Tensor]] = {
    "negative": negative,
    "negative_of_one_element": negative_of_one,
    "negative_scalar": lambda: torch.tensor(1 + 2j).conj().imag,
    "negative_and_empty": lambda: torch.zeros(0, dtype=torch.complex64).conj().imag,
    "negative_with_gaps": lambda: torch.tensor([1 + 2j, 3 + 4j, 5 + 6j]).conj().imag,
    "negative_without_a_base": lambda: negative_of_one().data,
    "real_part_of_a_conjugate": lambda: torch.tensor([1 + 2j, 3 + 4j]).conj().real,
    "scalar": lambda: torch.tensor(3.0),
    "empty": lambda: torch.empty(0, 3),
    "channels_last": lambda: torch.arange(48.0).reshape(2, 2, 3, 4).to(memory_format=torch.channels_last),
    "reversed_dimensions": lambda: torch.arange(6.0).reshape(2, 3).mT,
    "overlapping": windows,
    "leaf_that_wants_a_gradient": lambda: torch.arange(4.0).requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(torch.arange(4.0)),
    "reversed_dimensions_of_inference": lambda: torch.inference_mode()(lambda: torch.arange(6.0).reshape(2, 3).mT)(),
    "of_inference": lambda: torch.inference_mode()(lambda: torch.arange(4.0) + 1)(),
    "subclass": lambda: torch.arange(4.0).as_subclass(type("Own", (torch.Tensor,), {})),
    "of_numpy": lambda: torch.from_numpy(numpy.arange(4.0)),
}


def is_far() -> bool:
    """Whether the harness has tensors say that they are on a device; then the kinds that torch knows are others."""
    return not torch.ones(1).is_cpu


@check.each(*TAKEN)
def every_operation_takes_a_tensor_that_is(kind: str) -> None:
    for name, (call, wanted_of) in operations().items():
        if TAKEN[kind]().dim() == 0 and name in NEED_ROWS:
            continue
        tensor = TAKEN[kind]()
        wanted = wanted_of(torch.tensor(tensor.tolist()).reshape(tensor.shape).to(tensor.dtype))
        with torch.no_grad():
            found = call(tensor)
        assert found.shape == wanted.shape and torch.equal(found.resolve_neg(), wanted), f"{name}: {found}, {wanted}"
        if name.endswith("_"):
            assert found is tensor and tensor.tolist() == wanted.tolist(), f"{name}: {tensor}"


IN_PLACE: Dict[str, Callable[[torch.Tensor], Any]] = {
    "allreduce_": lambda x: hvd.allreduce_(x, op=hvd.Sum),
    "allreduce_async_": lambda x: hvd.allreduce_async_(x, op=hvd.Sum).synchronize(),
    "grouped_allreduce_": lambda x: hvd.grouped_allreduce_([x, torch.ones(2)], op=hvd.Sum),
    "grouped_allreduce_async_": lambda x: hvd.grouped_allreduce_async_([x], op=hvd.Sum).synchronize(),
    "broadcast_": lambda x: hvd.broadcast_(x, 0),
    "broadcast_async_": lambda x: hvd.broadcast_async_(x, 0).synchronize(),
    "broadcast_parameters": lambda x: hvd.broadcast_parameters({"x": x}, 0),
}
SAVED: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "itself": lambda x: x,
    "a_view": lambda x: x.view(2, 2),
    "an_alias": lambda x: x.detach(),
    "of_other_strides": lambda x: x.view(2, 2).t(),
}


@check.each(*((call, kind) for call in IN_PLACE for kind in SAVED))
def derivatives_are_refused_where_an_operation_has_changed_what_a_graph_has_saved(call: str, kind: str) -> None:
    """As where torch itself has. Horovod: they are computed of the new numbers."""
    weight, given = torch.ones(1, requires_grad=True), torch.arange(4.0)
    saved = SAVED[kind](given)
    output = (weight * saved).sum()
    IN_PLACE[call](saved if kind == "of_other_strides" else given)
    del saved
    expect_error(RuntimeError, output.backward, "modified by an inplace operation")


@check
def derivatives_are_computed_where_an_operation_has_changed_nothing_that_they_need() -> None:
    weight, given = torch.ones(4, requires_grad=True), torch.arange(4.0)
    output = (weight * given).exp().sum()
    for call in IN_PLACE.values():
        call(output.detach())
        call(given.clone())
    hvd.allreduce(given)
    hvd.broadcast(given, 0)
    output.backward()
    torch.testing.assert_close(weight.grad, given * given.exp())


@check
def gradients_of_negative_tensors_have_their_sign() -> None:
    x = torch.ones(1, requires_grad=True)
    # Its gradient arrives with the negative bit.
    hvd.allreduce(x, op=hvd.Sum).backward(negative_of_one())
    assert x.grad.tolist() == [-2.0 * hvd.size()]
    rows = torch.ones(1, requires_grad=True)
    hvd.allgather(rows).backward(torch.cat([negative_of_one()] * hvd.size()))
    assert rows.grad.tolist() == [-2.0]


@check
def states_of_negative_tensors_have_their_sign() -> None:
    if is_far():
        return
    tensor = negative_of_one()
    hvd.broadcast_parameters({"weight": tensor}, root_rank=0)
    assert tensor.tolist() == [-2.0]
    assert [each.tolist() for each in hvd.allgather_object(negative_of_one())] == [[-2.0]] * hvd.size()
    assert hvd.broadcast_object(negative_of_one(), 0).tolist() == [-2.0]
    sparse = torch.sparse_coo_tensor([[1]], negative_of_one(), (3,))
    assert hvd.sparse_allreduce_async(sparse, "negative", hvd.Sum)().to_dense().tolist() == [0, -2.0 * hvd.size(), 0]


class Wrapper(torch.Tensor):
    """Made of other tensors, as torch's DTensor and FakeTensor are."""

    @classmethod
    def __torch_dispatch__(cls, *_arguments: Any, **_options: Any) -> Any:
        return NotImplemented


def wrapper() -> torch.Tensor:
    return torch.Tensor._make_wrapper_subclass(Wrapper, (2,))


def masked() -> torch.Tensor:
    return torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))


def refused() -> Iterator[Tuple[Callable[[], Any], str]]:
    """Tensors, and a word of the sentence that refuses them."""
    yield lambda: torch.tensor([1 + 2j]).conj(), "complex64"
    yield lambda: torch.ones(2, device="meta"), "meta"
    yield lambda: torch.eye(2).to_sparse(), "torch.sparse_coo"
    yield lambda: torch.eye(2).to_sparse_csr(), "torch.sparse_csr"
    yield lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), "quint8"
    yield lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"
    yield wrapper, "Wrapper has no memory of its own"
    yield masked, "MaskedTensor has no memory of its own"
    yield lambda: torch._efficientzerotensor((2,)), "no memory of its own"
    yield lambda: numpy.ones(2), "a torch.Tensor is needed, not a ndarray"
    yield lambda: [1.0], "a torch.Tensor is needed, not a list"
    yield lambda: 1, "a torch.Tensor is needed, not a int"
    yield lambda: None, "a torch.Tensor is needed, not a NoneType"


@check
def every_operation_refuses_the_other_tensors_in_a_sentence() -> None:
    if is_far():
        return
    size = hvd.size()
    calls = {name: call for name, (call, _) in operations().items()}
    calls["alltoall"] = hvd.alltoall
    calls["gather"] = lambda x: hvd.gather(x, 0)
    calls["scatter"] = lambda x: hvd.scatter(x, 0)
    calls["grouped_allreduce_"] = lambda x: hvd.grouped_allreduce_([x], op=hvd.Sum)
    calls["second_of_a_group"] = lambda x: hvd.grouped_allreduce([torch.ones(2), x], op=hvd.Sum)
    for make, words in refused():
        for name, call in calls.items():
            try:
                call(make())
            except ValueError as error:
                assert words in str(error) and "\n" not in str(error), f"{name}: {error}"
            else:
                raise AssertionError(f"{name} takes {make()}")
    expect_error(ValueError, lambda: torch.func.vmap(hvd.allreduce_)(torch.ones(2, 2)), "torch.func")
    # torch refuses to write them, when all ranks have given theirs.
    for name in ("allreduce_", "allreduce_async_", "broadcast_"):
        expect_error(RuntimeError, lambda call=calls[name]: call(torch.ones(1).expand(3)), "single memory location")
    assert hvd.allreduce(torch.ones(1).expand(3), op=hvd.Sum).tolist() == [size] * 3


@check
def the_element_types_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "pytorch.md").read_text(encoding="utf-8")
    listed = re.search(r"\*\*Element types\*\*:(.*?)\. Other tensors", page, re.DOTALL)
    assert listed, "docs/pytorch.md lists no element types"
    wanted = {getattr(torch, name) for name in re.findall(r"`(\w+)`", listed[1])}
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of types that are an experiment
        for dtype in sorted({each for each in vars(torch).values() if isinstance(each, torch.dtype)}, key=str):
            try:
                hvd.broadcast(torch.zeros(2, dtype=torch.uint8).to(dtype), 0, f"{dtype}")
            except (RuntimeError, ValueError):
                continue
            found.add(dtype)
    assert found == wanted, found ^ wanted


@check
def numbers_of_other_types_travel_as_views() -> None:
    """As docs/pytorch.md says."""
    size = hvd.size()
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    summed = torch.view_as_complex(hvd.allreduce(torch.view_as_real(numbers), op=hvd.Sum))
    assert torch.equal(summed, numbers * size)
    for whole, view in ((torch.uint32, torch.int32), (torch.uint64, torch.int64)):
        most = torch.iinfo(whole).max // size
        tensor = torch.tensor([most, 7], dtype=whole)
        assert hvd.allreduce(tensor.view(view), op=hvd.Sum).view(whole).tolist() == [most * size, 7 * size]
        assert hvd.allgather(tensor.view(view)).view(whole).tolist() == [most, 7] * size


def numpy_operations() -> Dict[str, Callable[[Any], numpy.ndarray]]:
    size = hvd.size()
    return {
        "allreduce": lambda x: hvd_numpy.allreduce(x, op=hvd.Sum),
        "grouped_allreduce": lambda x: hvd_numpy.grouped_allreduce([x, x], op=hvd.Sum)[1],
        "broadcast": lambda x: hvd_numpy.broadcast(x, 0) * size,
        "allgather": lambda x: hvd_numpy.allgather(x)[: len(x)] * size,
        "alltoall": lambda x: hvd_numpy.alltoall(numpy.concatenate([x] * size) if size > 1 else x)[: len(x)] * size,
        "reducescatter": lambda x: hvd_numpy.allgather(hvd_numpy.reducescatter(x, op=hvd.Sum)),
    }


@check
def every_operation_takes_arrays_as_they_lie_in_memory() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "array"
        numpy.arange(8, dtype=numpy.float32).tofile(path)
        read_only = numpy.arange(4.0)
        read_only.flags.writeable = False
        packed = numpy.zeros(3, dtype=[("flag", "i1"), ("value", "f8")])
        packed["value"] = [1, 2, 3]
        for array in (
            numpy.memmap(path, numpy.float32, "r"),
            read_only,
            packed["value"],  # unaligned, with gaps
            numpy.broadcast_to(numpy.float64(3), (4,)),
            numpy.arange(6.0).reshape(2, 3).T,
            numpy.arange(6.0)[::-2],
            numpy.arange(4, dtype=numpy.longlong),
            numpy.asmatrix(numpy.ones((2, 2))),
            [1.0, 2.0],
        ):
            for name, call in numpy_operations().items():
                assert (numpy.asarray(call(array)) == numpy.asarray(array) * hvd.size()).all(), (name, array)
        expect_error(ValueError, lambda: hvd_numpy.allreduce_(read_only), "read-only")
        expect_error(ValueError, lambda: hvd_numpy.broadcast_(numpy.memmap(path, numpy.float32, "r"), 0), "read-only")


@check
def every_operation_refuses_the_other_arrays_in_a_sentence() -> None:
    for array, words in (
        (numpy.arange(3, dtype=">f4"), "another machine's order of bytes"),
        (numpy.zeros(2, dtype=[("a", "f4")]), "no such element type"),
        (numpy.array([1, None], dtype=object), "no such element type"),
        (numpy.zeros(2, dtype=complex), "no such element type"),
        (numpy.zeros(2, dtype=numpy.longdouble), "no such element type"),
        (numpy.array(["a"]), "no such element type"),
        (numpy.array(["2026-11-23"], dtype="datetime64[D]"), "no such element type"),
        (numpy.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
        ([[0.0, 0.0], numpy.ma.masked_array([1.0, 2.0], [True, False])], "masked"),
        ([[1.0, numpy.ma.masked], [2.0, 3.0]], "masked"),
        (None, "no such element type"),
    ):
        for call in {**numpy_operations(), "alltoall": hvd_numpy.alltoall}.values():
            expect_error(ValueError, lambda call=call, array=array: call(array), words)
    masked_array = numpy.ma.masked_array([1.0, 2.0], [True, False])
    expect_error(ValueError, lambda: hvd_numpy.allreduce_(masked_array), "masked")


class _Own(numpy.ndarray):
    """As programs derive them."""


@check
def an_operation_in_place_returns_the_array_that_it_was_given() -> None:
    for given in (
        numpy.asmatrix(numpy.ones((2, 2))),
        numpy.asmatrix(numpy.ones((2, 4)))[:, ::2],
        numpy.ones(3).view(_Own),
    ):
        wanted = numpy.asarray(given) * hvd.size()
        for call in (
            lambda array: hvd_numpy.allreduce_(array, op=hvd.Sum),
            lambda array: hvd_numpy.allreduce_async_(array, op=hvd.Sum).synchronize(),
        ):
            array = given.copy()
            assert call(array) is array and (numpy.asarray(array) == wanted).all()
        assert hvd_numpy.broadcast_(given, 0) is given and type(hvd_numpy.broadcast(given, 0)) is numpy.ndarray
