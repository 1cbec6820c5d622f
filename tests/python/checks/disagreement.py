"""Ranks disagree: each gets a ValueError that names two ranks and both values, and the job goes on."""

from typing import Any, Callable, List

import farandole.torch as hvd
import torch
from harness import Checks

check = Checks()


def expect_error(call: Callable[[], Any], *words: str) -> None:
    try:
        call()
    except ValueError as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        assert "\n" not in str(error)
    else:
        raise AssertionError("no ValueError")
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum, name="after").tolist() == [hvd.size()] * 3, "the job goes on"


def odd_one_out() -> bool:
    return hvd.rank() == hvd.size() - 1


@check
def about_a_shape() -> None:
    shape = (8, 4) if odd_one_out() else (4, 8)
    expect_error(
        lambda: hvd.allreduce(torch.ones(shape), name="grad/0"), "grad/0", "rank 0", f"rank {hvd.size() - 1}", "4", "8"
    )


@check
def about_an_element_type() -> None:
    dtype = torch.float64 if odd_one_out() else torch.float32
    expect_error(
        lambda: hvd.allreduce(torch.ones(5, dtype=dtype), name="grad/1"), "grad/1", "rank 0", f"rank {hvd.size() - 1}"
    )


@check
def about_floats_of_8_bits() -> None:
    dtype = torch.float8_e5m2 if odd_one_out() else torch.float8_e4m3fn
    tensor = torch.ones(5).to(dtype)
    for call in (lambda: hvd.allgather(tensor, name="f8"), lambda: hvd.allreduce(tensor, op=hvd.Sum, name="f8")):
        expect_error(call, "f8", "rank 0", f"rank {hvd.size() - 1}", "float8_e4m3fn", "float8_e5m2")


@check
def about_gpus_of_two_generations() -> None:
    tensor = torch.ones(5).to(torch.float8_e4m3fn)
    if not tensor.is_cuda:
        return
    capability = torch.cuda.get_device_capability
    torch.cuda.get_device_capability = lambda _device=None: (8, 9) if odd_one_out() else (9, 0)
    try:
        expect_error(lambda: hvd.allreduce(tensor, op=hvd.Sum, name="old"), "old", "rank 0", "cuda", "cpu")
        assert hvd.allgather(tensor, name="old").is_cuda, "what is only moved has no generation"
    finally:
        torch.cuda.get_device_capability = capability


@check
def about_a_reduction() -> None:
    expect_error(
        lambda: hvd.allreduce(torch.ones(5), op=hvd.Sum if odd_one_out() else hvd.Max, name="grad/2"),
        "grad/2",
        "rank 0",
    )


@check
def about_a_factor() -> None:
    expect_error(
        lambda: hvd.allreduce(torch.ones(5), prescale_factor=2.0 if odd_one_out() else 3.0, name="grad/3"),
        "grad/3",
        "rank 0",
    )


@check
def about_a_root() -> None:
    expect_error(
        lambda: hvd.broadcast(torch.ones(5), root_rank=1 if odd_one_out() else 0, name="root"), "root", "rank 0"
    )


@check
def about_an_operation() -> None:
    def call() -> Any:
        if odd_one_out():
            return hvd.allgather(torch.ones(5), name="op")
        return hvd.allreduce(torch.ones(5), name="op")

    expect_error(call, "op", "rank 0")


@check
def about_all_but_the_first_dimension_of_allgather() -> None:
    shape = (2, 4) if odd_one_out() else (3, 5)
    expect_error(lambda: hvd.allgather(torch.ones(shape), name="rows"), "rows", "rank 0")
    assert hvd.allgather(torch.ones(hvd.rank(), 2), name="rows").shape == (sum(range(hvd.size())), 2)


@check
def about_gather_and_scatter() -> None:
    shape = (2, 4) if odd_one_out() else (3, 5)
    root = 1 if odd_one_out() else 0
    for call in (hvd.gather, hvd.scatter):
        expect_error(lambda call=call: call(torch.ones(shape), 0, name="rows"), "rank 0", "[*,5]", "[*,4]")
        expect_error(lambda call=call: call(torch.ones(2), root, name="root"), "root", "rank 0")
        assert call(torch.ones(hvd.size(), 2), 0, name="rows").dim() == 2
    one = hvd.gather if odd_one_out() else hvd.scatter
    expect_error(lambda: one(torch.ones(2), 0, name="either"), "gather", "scatter", "rank 0")


@check
def about_all_but_the_first_dimension_of_alltoall() -> None:
    size = hvd.size()
    shape = (size, 4) if odd_one_out() else (size, 5)
    expect_error(lambda: hvd.alltoall(torch.ones(shape), name="exchange"), "rank 0", "[*,5]", "[*,4]")
    dtype = torch.int32 if odd_one_out() else torch.int64
    expect_error(
        lambda: hvd.alltoall(torch.ones(size, dtype=dtype), [1] * size, "exchange"), "rank 0", "int64", "int32"
    )
    assert hvd.alltoall(torch.ones(2 * size, 2), name="exchange").shape == (2 * size, 2)


@check
def about_a_name_that_was_known_before() -> None:
    for _ in range(5):
        hvd.allreduce(torch.ones(6), name="known")
    expect_error(lambda: hvd.allreduce(torch.ones(7 if odd_one_out() else 6), name="known"), "known", "6", "7")
    assert hvd.allreduce(torch.ones(6), name="known").tolist() == [1.0] * 6


@check
def about_unnamed_operations() -> None:
    expect_error(lambda: hvd.allreduce(torch.ones(7 if odd_one_out() else 6)), "6", "7")
    assert hvd.allreduce(torch.ones(6)).tolist() == [1.0] * 6


@check
def about_one_of_several_pending() -> None:
    handles = [
        hvd.allreduce_async(torch.ones(4 if i != 3 or odd_one_out() else 5), op=hvd.Sum, name=f"several.{i}")
        for i in range(6)
    ]
    for i, handle in enumerate(handles):
        if i == 3:
            expect_error(handle.synchronize, "several.3")
            expect_error(handle.synchronize, "several.3")
        else:
            assert handle.synchronize().tolist() == [hvd.size()] * 4


@check
def about_a_gradient() -> None:
    model = torch.nn.Linear(3 if odd_one_out() else 4, 2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
    )
    model(torch.ones(1, model.in_features)).sum().backward()
    expect_error(optimizer.step, "weight", "rank 0")


@check
def about_parameters_to_broadcast() -> None:
    model = torch.nn.Linear(3 if odd_one_out() else 4, 2)
    expect_error(lambda: hvd.broadcast_parameters(model.state_dict(), 0), "weight", "rank 0")


@check
def about_which_parameters_to_broadcast() -> None:
    mine = {"first": torch.ones(2), "other" if odd_one_out() else "second": torch.ones(3)}
    last = f"rank {hvd.size() - 1}"
    expect_error(lambda: hvd.broadcast_parameters(mine, 0), "second", "other", "rank 0", last)
    more = {"first": torch.ones(2), **({"second": torch.ones(1)} if odd_one_out() else {})}
    expect_error(lambda: hvd.broadcast_parameters(more, 0), "second", "no such tensor", "rank 0", last)
    kind = {"first": torch.ones(2, dtype=torch.float64 if odd_one_out() else torch.float32)}
    expect_error(lambda: hvd.broadcast_parameters(kind, 0), "first", "torch.float32", "torch.float64", last)
    root = 1 if odd_one_out() else 0
    expect_error(lambda: hvd.broadcast_parameters({"first": torch.ones(2)}, root), "root_rank", "rank 0 has 0", last)


@check
def about_groups_of_parameters_to_broadcast() -> None:
    layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    groups = [{"params": list(layer.parameters())} for layer in layers]
    if odd_one_out():
        groups = [{"params": [parameter for layer in layers for parameter in layer.parameters()]}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    words = ("2 groups of [2, 2] parameters", "1 groups of [4] parameters", "rank 0", f"rank {hvd.size() - 1}")
    expect_error(lambda: hvd.broadcast_optimizer_state(optimizer, 0), *words)


def grouped_calls(name: str, tensors: List[torch.Tensor]) -> List[Callable[[], Any]]:
    """Each operation that takes lists, at once and asynchronous."""
    return [
        lambda: hvd.grouped_allreduce(tensors, name=f"{name}/reduced", op=hvd.Sum),
        lambda: hvd.grouped_allreduce_async(tensors, name=f"{name}/later", op=hvd.Sum).synchronize(),
        lambda: hvd.grouped_allgather(tensors, name=f"{name}/gathered"),
        lambda: hvd.grouped_reducescatter(tensors, name=f"{name}/scattered", op=hvd.Sum),
        lambda: hvd.grouped_allreduce(tensors, op=hvd.Sum),
        lambda: hvd.grouped_allgather(tensors),
        lambda: hvd.grouped_reducescatter(tensors, op=hvd.Sum),
    ]


@check
def about_the_number_of_grouped_tensors() -> None:
    size, last = hvd.size(), f"rank {hvd.size() - 1} has"
    few, many = [torch.ones(size), torch.ones(size)], [torch.ones(size), torch.ones(size), torch.ones(size)]
    mixed = [torch.ones(size), torch.ones(size, dtype=torch.float64), torch.ones(size)]
    rows = [
        ("more", few, many, "2 grouped tensors", "3 grouped tensors"),
        ("types", few, mixed, "2 grouped tensors", "3 grouped tensors"),
        ("one", mixed[1:2], mixed, "1 grouped tensor", "3 grouped tensors"),
        ("none", mixed, [], "3 grouped tensors", "0 grouped tensors"),
        ("scalar", [torch.tensor(1.0).reshape(1)], [], "1 grouped tensor", "0 grouped tensors"),
    ]
    for name, others, own, first, second in rows:
        tensors = own if odd_one_out() else others
        for call in grouped_calls(name, tensors):
            expect_error(call, f"rank 0 has {first}", f"{last} {second}")


@check
def about_an_element_type_of_a_group() -> None:
    size, last = hvd.size(), f"rank {hvd.size() - 1} has"
    own = [torch.ones(size), torch.ones(size, dtype=torch.float64 if odd_one_out() else torch.float16)]
    for call in grouped_calls("type", own):
        expect_error(
            call, "rank 0 has dtype float16 for grouped tensor 1", f"{last} dtype float64 for grouped tensor 1"
        )


@check
def about_a_shape_of_a_group_of_several_element_types() -> None:
    size, last = hvd.size(), f"rank {hvd.size() - 1} has"
    own = [torch.ones(size, 2), torch.ones(size, 4 if odd_one_out() else 3, dtype=torch.float64)]
    for call in grouped_calls("shape", own):
        expect_error(call, "3] for grouped tensor 1", f"{last} shape [", "4] for grouped tensor 1")


@check
def what_comes_after_a_group_about_which_ranks_disagree_is_right() -> None:
    size = hvd.size()
    tensors = [torch.ones(size), torch.full((size,), 2.0, dtype=torch.float64), torch.full((size,), 3.0)]
    for name in (None, "again"):
        handles = [
            hvd.grouped_allgather_async(tensors[: 1 if odd_one_out() else 3], name=name),
            hvd.allgather_async(torch.full((1,), hvd.rank())),
        ]
        expect_error(handles[0].synchronize, "1 grouped tensor", "3 grouped tensors")
        assert handles[1].synchronize().tolist() == list(range(size))
        assert [gathered.sum().item() for gathered in hvd.grouped_allgather(tensors, name=name)] == [
            size * size * factor for factor in (1, 2, 3)
        ]
        reduced = hvd.grouped_allreduce(tensors, op=hvd.Sum, name=name)
        assert [tensor.tolist() for tensor in reduced] == [[size * factor] * size for factor in (1, 2, 3)]
        parts = hvd.grouped_reducescatter(tensors, op=hvd.Sum, name=name)
        assert [tensor.tolist() for tensor in parts] == [[size * factor] for factor in (1, 2, 3)]


@check
def nobody_has_a_tensor_in_a_group() -> None:
    for call in grouped_calls("nothing", []):
        assert call() == []
