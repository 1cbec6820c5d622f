"""Arguments mean what they say, or a sentence refuses them: before anything is sent, so that the job goes on."""

import enum
import warnings
from typing import Any, Callable, Dict, Iterator, Tuple

import farandole.numpy as hvd_numpy
import farandole.torch as hvd
import numpy
import torch
import torch.distributed
from farandole import checkpoint
from harness import Checks, expect_error

check = Checks()

ReduceOp = torch.distributed.ReduceOp


class Reduction(enum.IntEnum):
    """As programs have their own; the numbers happen to be some of ours."""

    SUM = 0
    MEAN = 1


def reductions() -> Dict[str, Callable[[Any], float]]:
    """By name: everything that takes an `op`, and the first element that it gives where rank r has r + 1."""
    rank, size = hvd.rank(), hvd.size()

    def torch_rows() -> torch.Tensor:
        return torch.full((size, 1), float(rank + 1))

    def numpy_rows() -> numpy.ndarray:
        return numpy.full((size, 1), float(rank + 1))

    return {
        "allreduce": lambda op: float(hvd.allreduce(torch_rows(), op=op)[0]),
        "allreduce_": lambda op: float(hvd.allreduce_(torch_rows(), op=op)[0]),
        "allreduce_async": lambda op: float(hvd.allreduce_async(torch_rows(), op=op).synchronize()[0]),
        "allreduce_async_": lambda op: float(hvd.allreduce_async_(torch_rows(), op=op).synchronize()[0]),
        "grouped_allreduce": lambda op: float(hvd.grouped_allreduce([torch_rows()], op=op)[0][0]),
        "grouped_allreduce_": lambda op: float(hvd.grouped_allreduce_([torch_rows()], op=op)[0][0]),
        "grouped_allreduce_async": lambda op: float(
            hvd.grouped_allreduce_async([torch_rows()], op=op).synchronize()[0][0]
        ),
        "reducescatter": lambda op: float(hvd.reducescatter(torch_rows(), op=op)[0]),
        "grouped_reducescatter": lambda op: float(hvd.grouped_reducescatter([torch_rows()], op=op)[0][0]),
        "numpy.allreduce": lambda op: float(hvd_numpy.allreduce(numpy_rows(), op=op)[0, 0]),
        "numpy.allreduce_": lambda op: float(hvd_numpy.allreduce_(numpy_rows(), op=op)[0, 0]),
        "numpy.grouped_allreduce": lambda op: float(hvd_numpy.grouped_allreduce([numpy_rows()], op=op)[0][0, 0]),
        "numpy.reducescatter": lambda op: float(hvd_numpy.reducescatter(numpy_rows(), op=op)[0, 0]),
    }


def sparse_reduction(op: Any) -> float:
    tensor = torch.sparse_coo_tensor([[0]], [float(hvd.rank() + 1)], (2,))
    return float(hvd.sparse_allreduce_async(tensor, "sparse", op)().to_dense()[0])


def optimizer_with(op: Any) -> Any:
    parameter = torch.nn.Parameter(torch.ones(1))
    return hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("p", parameter)], op=op)


@check
def a_reduction_of_torch_distributed_means_what_it_says() -> None:
    ranks = list(range(1, hvd.size() + 1))
    wanted = {
        ReduceOp.SUM: sum(ranks),
        ReduceOp.AVG: sum(ranks) / len(ranks),
        ReduceOp.PRODUCT: float(numpy.prod(ranks)),
        ReduceOp.MIN: 1,
        ReduceOp.MAX: len(ranks),
    }
    for name, call in reductions().items():
        for op, value in wanted.items():
            assert abs(call(op) - value) < 1e-9 * value + (1e-6 if op == ReduceOp.AVG else 0), (name, op)
        assert call(ReduceOp(ReduceOp.SUM)) == sum(ranks), name
        assert call(numpy.int64(hvd.Sum)) == sum(ranks), name
    assert sparse_reduction(ReduceOp.SUM) == sum(ranks)
    for op, ours in ((ReduceOp.SUM, hvd.Sum), (ReduceOp.AVG, hvd.Average), (ReduceOp.PRODUCT, hvd.Product)):
        assert optimizer_with(op).op == ours


@check
def what_is_no_reduction_is_refused() -> None:
    others = [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR, ReduceOp.PREMUL_SUM, Reduction.SUM, Reduction.MEAN]
    others += [
        True,
        False,
        1.0,
        17,
        -1,
        numpy.int64(17),
        numpy.float64(1),
        "sum",
        "Sum",
        sum,
        torch.sum,
        torch.tensor(1),
    ]
    for op in others:
        for call in (*reductions().values(), sparse_reduction, optimizer_with):
            expect_error(ValueError, lambda call=call, op=op: call(op), f"op={op!r} is not a reduction", "Average, Sum")


@check
def average_is_true_or_false() -> None:
    total = sum(range(1, hvd.size() + 1))
    own = torch.full((1,), float(hvd.rank() + 1))
    calls = [
        lambda average: hvd.allreduce(own, average),
        lambda average: hvd.allreduce_(own.clone(), average),
        lambda average: hvd.allreduce_async(own, average).synchronize(),
        lambda average: hvd.grouped_allreduce([own], average)[0],
        lambda average: hvd_numpy.allreduce(own.numpy(), average),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for call in calls:
            for average in (False, 0, numpy.bool_(False), torch.tensor(False)):
                assert float(call(average)[0]) == total, average
            assert abs(float(call(True)[0]) - total / hvd.size()) < 1e-6
            # "name" is where Horovod has it, third.
            for other in ("gradient", 2, 0.5, hvd.Adasum, [True], ReduceOp.SUM):
                expect_error(
                    ValueError, lambda call=call, other=other: call(other), f"average={other!r}", "True nor False"
                )
    expect_error(ValueError, lambda: hvd.allreduce(own, True, op=ReduceOp.SUM), "both given", "RedOpType.SUM")


def wrong_calls() -> Iterator[Tuple[Callable[[], Any], str, str]]:
    """Calls, and two parts of the sentence: which argument, and what it is."""
    size = hvd.size()
    for hvd_, own in ((hvd, torch.ones(size)), (hvd_numpy, numpy.ones(size))):
        for factor in ("2", None, [2.0], 1j):
            for name in ("prescale_factor", "postscale_factor"):
                for call in (
                    hvd_.allreduce,
                    hvd_.allreduce_,
                    lambda x, hvd_=hvd_, **options: hvd_.allreduce_async(x, **options),
                    lambda x, hvd_=hvd_, **options: hvd_.grouped_allreduce([x], **options),
                    hvd_.reducescatter,
                ):
                    yield lambda c=call, n=name, f=factor, x=own: c(x, **{n: f}), f"{name} is a number", repr(factor)
        for root in (None, "0", 1.5, [0]):
            for call in (hvd_.broadcast, hvd_.broadcast_, hvd_.broadcast_async, hvd.broadcast_object):
                yield lambda c=call, r=root, x=own: c(x, root_rank=r), "root_rank is a rank of the job", repr(root)
        for root in (size, -1):
            for call in (hvd_.broadcast, hvd_.broadcast_):
                yield lambda c=call, r=root, x=own: c(x, root_rank=r), "root", str(root)
        for process_set in (None, 0, [0], "global"):
            for call in (hvd_.allreduce, hvd_.allreduce_, hvd_.allgather, hvd_.alltoall, hvd_.reducescatter):
                yield lambda c=call, p=process_set, x=own: c(x, process_set=p), "a ProcessSet, not", repr(process_set)
            yield lambda p=process_set: hvd.barrier(p), "a ProcessSet, not", repr(process_set)
        for splits in (5, "1" * size, [0.5] * size, [[1]], [None] * size):
            yield lambda s=splits, x=own, h=hvd_: h.alltoall(x, s), "splits are a list of whole numbers", repr(splits)
        for splits in ([2**63] * size, numpy.full(size, 2**63, numpy.uint64)):
            yield lambda s=splits, x=own, h=hvd_: h.alltoall(x, s), "splits are at most", str(int(splits[0]))
        for splits in ([-1] * size, [1] * (size + 1), [size + 1] * size):
            yield lambda s=splits, x=own, h=hvd_: h.alltoall(x, s), "alltoall", "split"
        for name in (5, b"gradient", ("a",)):
            for call in (hvd_.allreduce, hvd_.allgather, hvd_.allreduce_async, hvd_.alltoall):
                yield lambda c=call, n=name, x=own: c(x, name=n), "a name is a string", repr(name)
        for call in (hvd_.allreduce, hvd_.allgather, hvd_.allreduce_async, hvd_.alltoall):
            yield lambda c=call, x=own: c(x, name="a\ud800"), "no text of Unicode", repr("a\ud800")
        for root in (2**31, -(2**70)):
            yield lambda r=root, x=own, h=hvd_: h.broadcast(x, r), "root_rank is a rank", str(root)
            yield lambda r=root, x=own, h=hvd_: h.gather(x, r), "root_rank is a rank", str(root)
        for arrays in (None, 5):
            for call in (hvd_.grouped_allreduce, hvd_.grouped_allgather, hvd_.grouped_reducescatter):
                yield lambda c=call, a=arrays: c(a), "a grouped operation needs a list", type(arrays).__name__
        yield lambda x=own: hvd.synchronize(x), "a handle", "1."
        yield lambda x=own: hvd.poll(5), "a handle", "5"
    for compression in ("fp16", None, 16):
        for call in (lambda **c: hvd.allreduce(torch.ones(2), **c), lambda **c: hvd.reducescatter(torch.ones(2), **c)):
            yield lambda c=call, z=compression: c(compression=z), "compression is a class", repr(compression)
    yield lambda: hvd.remove_process_set(1), "a ProcessSet, not", "1"
    yield lambda: hvd.add_process_set(1), "list of process ranks", "1"
    yield lambda: hvd.init(process_sets=5), "process_sets", "5"
    yield lambda: hvd.init(process_sets=[[0]]), "process_sets", "[0]"
    yield lambda: hvd.broadcast_parameters(5, 0), "invalid params", "int"
    yield lambda: hvd.broadcast_parameters({"a": torch.ones(1)}, None), "root_rank", "None"
    yield lambda: hvd.broadcast_optimizer_state(5, 0), "an optimizer", "5"


def wrong_calls_of_optimizers() -> Iterator[Tuple[Callable[[], Any], str, str]]:
    """As wrong_calls()."""
    weight = torch.nn.Parameter(torch.ones(1))
    rows: Dict[str, Tuple[str, Tuple[Any, ...]]] = {
        "compression": ("compression is a class", ("fp16", None, 16)),
        "backward_passes_per_step": ("backward_passes_per_step must be a whole number", ("2", None, 1.5, 0)),
        "gradient_predivide_factor": ("gradient_predivide_factor must be a number other than 0", ("2", None, 0, [2.0])),
        "named_parameters": ("should be a sequence of tuples", ({"weight": weight}, 5, [(1, weight)])),
        "groups": ("groups should be", ("abc", 1.5)),
        "process_set": ("a ProcessSet, not", (None, 0)),
    }
    for name, (sentence, values) in rows.items():
        for value in values:
            shown = repr(value) if name not in ("named_parameters", "groups") else ""
            options = {name: value}
            yield lambda o=options: hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), **o), sentence, shown
    for optimizer in (5, None, torch.nn.Linear(1, 1)):
        yield lambda o=optimizer: hvd.DistributedOptimizer(o), "needs an optimizer of torch.optim", repr(optimizer)
    for op in (hvd.Average, hvd.Adasum):
        made = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=op)
        yield lambda m=made: m.set_backward_passes_per_step("2"), "backward_passes_per_step must be", "'2'"
        lazy = torch.nn.LazyLinear(2)
        for named in (None, lazy.named_parameters()):
            yield (
                lambda n=named, z=lazy, o=op: hvd.DistributedOptimizer(
                    torch.optim.SGD(z.parameters(), lr=0.1), n, op=o
                ),
                "has no shape before a forward pass",
                "weight" if named else "noname.0.0",
            )
        yield lambda z=lazy, m=made: m.add_param_group({"params": z.weight}), "has no shape before a", "noname.1.0"
    yield lambda: hvd.broadcast_parameters(torch.nn.LazyLinear(2).state_dict(), 0), "has no shape before a", "bias"
    yield lambda: hvd.allreduce(torch.nn.LazyLinear(2).weight), "has no shape before a", "UninitializedParameter"
    yield lambda: hvd.Compression.powersgd(rank="4"), "PowerSGD needs rank", "'4'"
    yield lambda: hvd.Compression.int8(block=None), "Int8 needs block", "None"


def wrong_calls_of_other_functions() -> Iterator[Tuple[Callable[[], Any], str, str]]:
    """As wrong_calls()."""
    yield lambda: hvd.broadcast_object(1, 0, name=5), "a name is a string", "5"
    yield lambda: hvd.allgather_object(1, name=5), "a name is a string", "5"
    yield lambda: hvd.log(5), "numbers by name", "5"
    yield lambda: hvd.log({"loss": "much"}), "'loss' is logged as", "'much'"
    yield lambda: hvd.log({"loss": torch.ones(2)}), "'loss' is logged as", "no single number"
    yield lambda: hvd.log({5: 1.0}), "5 is logged as", "1.0"
    yield lambda: hvd.log({"a": 1.0}, step="one"), "step is a whole number", "'one'"
    yield lambda: hvd.log({"a": 1.0}, step=2**63), "64 bits", str(2**63)
    yield lambda: hvd.log({"": 1.0}), "the name '' has 0 bytes", "1 to 128"
    yield lambda: hvd.log({"a\nb": 1.0}), "control characters", "a?b"
    for name in (5, "a\0"):
        yield lambda n=name: hvd.section(n), "a section's name is text", repr(name)
    yield lambda: hvd.section("").__enter__(), "the name '' has 0 bytes", "1 to 64"
    yield lambda: hvd.section("a\nb").__enter__(), "control characters", "a?b"
    for path in (5, None):
        yield lambda p=path: hvd.start_timeline(p), "file_path is where", repr(path)
        yield lambda p=path: checkpoint.save({}, p, 1, wait=True), "directory is a path", repr(path)
        yield lambda p=path: checkpoint.latest(p), "directory is a path", repr(path)
    yield lambda: checkpoint.latest("/nowhere", name=5), "a name is a string", "5"
    for step in ("one", 1.5, None):
        yield lambda s=step: checkpoint.save({}, "/nowhere", s, wait=True), "step is a whole number", repr(step)
        yield lambda s=step: checkpoint.find("/nowhere", step=s), "step is a whole number", repr(step)
    for step in (2**63, -(2**70)):
        yield lambda s=step: checkpoint.save({}, "/nowhere", s, wait=True), "step is a number of 64 bits", str(step)
        yield lambda s=step: checkpoint.find("/nowhere", step=s), "step is a number of 64 bits", str(step)
    yield lambda: hvd.elastic.run(5), "decorates a function", "5"
    yield lambda: hvd.run(5), "calls a function", "5"
    yield lambda: hvd.run(len, 5), "args are a list", "5"
    yield lambda: hvd.run(len, "text"), "args are a list", "'text'"
    yield lambda: hvd.run(len, (), 5), "kwargs are a dictionary", "5"
    for shape in ("a", 1.5, None, (1, "a")):
        yield lambda s=shape: hvd_numpy.arena(s, "float32", "wrong"), "shape is made of whole numbers", repr(shape)
    yield lambda: hvd_numpy.arena((1,), "nothing", "wrong"), "element type is one of NumPy's", "'nothing'"
    yield lambda: hvd_numpy.arena((1,), "float32", 5), "a name is a string", "5"


@check
def a_wrong_argument_is_named_in_a_sentence() -> None:
    for call, argument, value in (*wrong_calls(), *wrong_calls_of_optimizers(), *wrong_calls_of_other_functions()):
        try:
            call()
        except ValueError as error:
            assert argument in str(error) and value in str(error) and "\n" not in str(error), error
        else:
            raise AssertionError(f"not refused: {argument}, {value}")
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2, "the job goes on"


@check
def groups_may_come_from_generators() -> None:
    size = hvd.size()

    def tensors() -> Iterator[torch.Tensor]:
        return (torch.ones(size) for _ in range(2))

    assert [each.tolist() for each in hvd.grouped_allreduce(tensors(), op=hvd.Sum)] == [[size] * size] * 2
    assert [len(each) for each in hvd.grouped_allgather(tensors())] == [size * size] * 2
    assert [each.tolist() for each in hvd.grouped_reducescatter(tensors(), op=hvd.Sum)] == [[size]] * 2
    assert len(hvd.grouped_allreduce_async(tensors()).synchronize()) == 2


@check
def numbers_of_other_kinds_are_numbers() -> None:
    size = hvd.size()
    for two in (2, numpy.float32(2), numpy.int64(2), torch.tensor(2.0)):
        for call in (hvd.allreduce, lambda x, **options: hvd.allreduce_async(x, **options).synchronize()):
            assert call(torch.ones(1), op=hvd.Sum, prescale_factor=two).tolist() == [2 * size], two
    assert hvd.broadcast(torch.ones(1), root_rank=numpy.int64(0)).tolist() == [1]
