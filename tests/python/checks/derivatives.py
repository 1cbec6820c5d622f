"""Derivatives of PyTorch's operations: second ones, as one process computes them of all ranks' tensors; and those of
calls with tensors that have none."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import farandole.torch as hvd
import torch
from harness import Checks, expect_error

check = Checks()

Tensors = List[torch.Tensor]
"""One for each rank of the process set."""
Linear = Callable[[Tensors], Tensors]
Call = Callable[[torch.Tensor, Optional[str], Any], torch.Tensor]
"""With a name, in a process set."""


class Rules(NamedTuple):
    """An operation on a rank, and what it is on all ranks together."""

    call: Call
    forward: Linear
    backward: Linear
    """The gradients of the inputs, of those of the outputs."""
    twice: Linear
    """The gradients of what `backward` is given, of those of its results."""


def mean_of(tensors: Tensors) -> torch.Tensor:
    return sum_of(tensors) / len(tensors)


def sum_of(tensors: Tensors) -> torch.Tensor:
    return torch.stack(tensors).sum(0)


def everywhere(combine: Callable[[Tensors], torch.Tensor]) -> Linear:
    return lambda tensors: [combine(tensors)] * len(tensors)


def only_on(root: int, combine: Callable[[Tensors], torch.Tensor]) -> Linear:
    """Zeros elsewhere."""

    def combined(tensors: Tensors) -> Tensors:
        found = combine(tensors)
        return [found if position == root else torch.zeros_like(found) for position in range(len(tensors))]

    return combined


def exchange(splits: List[List[int]]) -> Linear:
    """Each rank's rows to the others."""

    def exchanged(tensors: Tensors) -> Tensors:
        parts = [tensor[: sum(rows)].split(rows) for tensor, rows in zip(tensors, splits)]
        return [torch.cat([part[position] for part in parts]) for position in range(len(tensors))]

    return exchanged


class World:
    """The ranks of a process set, and their tensors: of two columns, and on each rank of other rows."""

    def __init__(self, given: Tensors, ranks: List[int]) -> None:
        self.given, self.size, self.last = given, len(given), len(given) - 1
        self.root = ranks[self.last]
        self.rows = [len(tensor) for tensor in given]

    def rules(self) -> Dict[str, Rules]:
        """Of all operations."""
        scales = {"prescale_factor": 0.5, "postscale_factor": 3.0}
        return {
            "average": self._reduction(hvd.Average, 1.0, False),
            "sum": self._reduction(hvd.Sum, 1.5, False, **scales),
            "grouped": self._reduction(hvd.Average, 2.0, True, postscale_factor=2.0),
            "allgather": self._gathering(lambda x, name, process_set: hvd.allgather(x, name, process_set)),
            "grouped_allgather": self._gathering(
                lambda x, name, process_set: hvd.grouped_allgather([x > 0, x, x.detach().long()], name, process_set)[1]
            ),
            "reducescatter": self._scattered_reduction(hvd.Average, 1.0, False),
            "reducescatter_sum": self._scattered_reduction(hvd.Sum, 1.5, False, **scales),
            "grouped_reducescatter": self._scattered_reduction(hvd.Sum, 2.0, True, prescale_factor=2.0),
            "broadcast": self._evenly(
                lambda x, name, process_set: hvd.broadcast(x, self.root, name, process_set),
                everywhere(lambda tensors: tensors[self.last]),
                only_on(self.last, mean_of),
                everywhere(lambda gradients: gradients[self.last] / self.size),
            ),
            "alltoall": self._exchange(),
            "gather": self._gather(),
            "scatter": self._scatter(),
        }

    def _evenly(self, call: Call, forward: Linear, backward: Linear, twice: Linear) -> Rules:
        """Of operations that need the same shape on all ranks: of the first rows."""
        count = self.rows[0]

        def begin(combine: Linear) -> Linear:
            return lambda tensors: combine([tensor[:count] for tensor in tensors])

        def padded(gradients: Tensors) -> Tensors:
            return [
                torch.cat([each, each.new_zeros(rows - count, 2)]) for each, rows in zip(backward(gradients), self.rows)
            ]

        return Rules(lambda x, *more: call(x[:count], *more), begin(forward), padded, begin(twice))

    def _reduction(self, op: int, factor: float, is_grouped: bool, **scales: float) -> Rules:
        def call(x: torch.Tensor, name: Optional[str], process_set: Any) -> torch.Tensor:
            options = {"name": name, "op": op, "process_set": process_set, **scales}
            if is_grouped:
                return hvd.grouped_allreduce([torch.ones(2, dtype=torch.int64), x], **options)[1]
            return hvd.allreduce(x, **options)

        total = sum_of if op == hvd.Sum else mean_of
        reduced = everywhere(lambda tensors: factor * total(tensors))
        return self._evenly(call, reduced, reduced, reduced)

    def _scattered_reduction(self, op: int, factor: float, is_grouped: bool, **scales: float) -> Rules:
        def call(x: torch.Tensor, name: Optional[str], process_set: Any) -> torch.Tensor:
            options = {"name": name, "op": op, "process_set": process_set, **scales}
            if is_grouped:
                return hvd.grouped_reducescatter([x, torch.ones(self.size, dtype=torch.int64)], **options)[0]
            return hvd.reducescatter(x, **options)

        total = sum_of if op == hvd.Sum else mean_of
        scale = factor * (self.size if op == hvd.Sum else 1)
        return self._evenly(
            call,
            lambda tensors: self._shared_out(factor * total(tensors)),
            everywhere(lambda gradients: scale * torch.cat(gradients)),
            lambda gradients: self._shared_out(scale * mean_of(gradients)),
        )

    def _shared_out(self, tensor: torch.Tensor) -> Tensors:
        return list(tensor.tensor_split(self.size))

    def _gathering(self, call: Call) -> Rules:
        return Rules(
            call,
            everywhere(torch.cat),
            lambda gradients: list(mean_of(gradients).split(self.rows)),
            everywhere(lambda gradients: torch.cat(gradients) / self.size),
        )

    def _exchange(self) -> Rules:
        # Some of a rank's rows for each one; the last rows stay.
        positions = range(self.size)
        splits = [[(position + other) % 2 for other in positions] for position in positions]
        back = [[splits[other][position] for other in positions] for position in positions]
        left = [count - sum(sent) for count, sent in zip(self.rows, splits)]
        return Rules(
            lambda x, name, process_set: hvd.alltoall(x, splits[process_set.rank()], name, process_set)[0],
            exchange(splits),
            lambda gradients: [
                torch.cat([found, found.new_zeros(count, 2)]) for found, count in zip(exchange(back)(gradients), left)
            ],
            exchange(splits),
        )

    def _gather(self) -> Rules:
        def on_root(tensors: Tensors) -> Tensors:
            whole = torch.cat(tensors)
            return [whole if position == self.last else whole[:0] for position in range(self.size)]

        return Rules(
            lambda x, name, process_set: hvd.gather(x, self.root, name, process_set),
            on_root,
            lambda gradients: list(gradients[self.last].split(self.rows)),
            on_root,
        )

    def _scatter(self) -> Rules:
        def on_root(gradients: Tensors) -> Tensors:
            zeros = [torch.zeros_like(tensor) for tensor in self.given]
            return [*zeros[: self.last], torch.cat(gradients)]

        return Rules(
            lambda x, name, process_set: hvd.scatter(x, self.root, name, process_set),
            lambda tensors: self._shared_out(tensors[self.last]),
            on_root,
            lambda gradients: self._shared_out(gradients[self.last]),
        )


KINDS = list(World([torch.ones(2, 2)], [0]).rules())


def numbers(shape: torch.Size, seed: float) -> torch.Tensor:
    found = torch.arange(float(shape.numel()), dtype=torch.float64) * 1.7 + seed
    return torch.sin(found).reshape(shape)


def own_weights(shapes: List[torch.Size], seed: float) -> Tensors:
    return [numbers(shape, seed + position) for position, shape in enumerate(shapes)]


def check_second(kind: str, process_set: Any, name: Optional[str]) -> None:
    """Of the loss (w * op(x)^3).sum() + (x^4).sum(), and of its gradient times v."""
    size, position = process_set.size(), process_set.rank()
    given = [numbers(torch.Size([size + 1 + each, 2]), 0.4 * each) for each in range(size)]
    rule = World(given, process_set.ranks).rules()[kind]
    outputs = rule.forward(given)
    weights = own_weights([each.shape for each in outputs], 0.7)
    others = own_weights([each.shape for each in given], 0.2)

    first = rule.backward([3 * w * y**2 for w, y in zip(weights, outputs)])
    first = [found + 4 * x**3 for found, x in zip(first, given)]
    wanted = rule.backward([6 * w * y * h for w, y, h in zip(weights, outputs, rule.twice(others))])
    wanted = [found + 12 * x**2 * v for found, x, v in zip(wanted, given, others)]

    x = given[position].clone().requires_grad_()
    counts = []
    for creates_graph in (False, True):
        loss = (weights[position] * rule.call(x, name, process_set) ** 3).sum() + (x**4).sum()
        before = hvd.counters().submissions
        (gradient,) = torch.autograd.grad(loss, x, create_graph=creates_graph)
        counts.append(hvd.counters().submissions - before)
        torch.testing.assert_close(gradient.detach(), first[position], msg=lambda text: f"first of {kind}: {text}")
        assert gradient.requires_grad == creates_graph
    assert counts == [1, 1], f"{kind}: {counts} collectives"
    (gradient * others[position]).sum().backward()
    torch.testing.assert_close(x.grad, wanted[position], msg=lambda text: f"second of {kind}: {text}")


@check.each(*KINDS)
def second_derivatives_go_through_the_operations(kind: str) -> None:
    for name in ("second", None):
        check_second(kind, hvd.global_process_set, name)


@check
def second_derivatives_go_through_the_operations_of_a_process_set() -> None:
    if hvd.size() < 3:
        return
    pair = hvd.add_process_set([0, hvd.size() - 1])
    if pair.included():
        for kind in KINDS:
            check_second(kind, pair, "second")
    hvd.barrier()
    hvd.remove_process_set(pair)


@check
def a_gradient_penalty_is_that_of_one_process() -> None:
    """The average of the ranks' losses in one process, where each rank has the same loss."""
    size, rank = hvd.size(), hvd.rank()
    whole = numbers(torch.Size([size, 3]), 0.1).requires_grad_()
    loss = (whole.mean(0) ** 3).sum()
    (slope,) = torch.autograd.grad(loss, whole, create_graph=True)
    (size * slope).square().sum(1).mean().backward()
    own = whole.detach()[rank].clone().requires_grad_()
    (slope,) = torch.autograd.grad((hvd.allreduce(own, name="penalty") ** 3).sum(), own, create_graph=True)
    slope.square().sum().backward()
    torch.testing.assert_close(own.grad, size * whole.grad[rank])


@check
def ranks_without_rows_take_part_in_second_derivatives() -> None:
    size, rank = hvd.size(), hvd.rank()
    x = torch.ones(2 if rank == size - 1 else 0, 3, dtype=torch.float64, requires_grad=True)
    calls = {
        "gather": lambda: hvd.gather(x, 0, name="none"),
        "alltoall": lambda: hvd.alltoall(x, [len(x), *[0] * (size - 1)], name="none")[0],
        "scatter": lambda: hvd.scatter(x, size - 1, name="none"),
    }
    for name, call in calls.items():
        (gradient,) = torch.autograd.grad((call() ** 3).sum(), x, create_graph=True)
        assert torch.equal(gradient, torch.full_like(x, 3.0)), name
        (found,) = torch.autograd.grad(gradient.sum(), x)
        assert torch.equal(found, torch.full_like(x, 6.0)), name


@check.each("gathered", "reduced", "scattered")
def tensors_without_derivatives_travel_forwards_only(kind: str) -> None:
    """Masks and labels beside what is trained."""
    size = hvd.size()
    x = torch.full((size,), hvd.rank() + 1.0, requires_grad=True)
    tensors = [torch.ones(size, dtype=torch.bool), x, torch.full((size,), 3), torch.ones(size)]
    # The gradient, and how often tensors travel for it: those of one element type are reduced together.
    if kind == "gathered":
        found, wanted, submissions = hvd.grouped_allgather(tensors, name="masks"), 1.0, 1
    elif kind == "reduced":
        found, wanted, submissions = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="masks"), float(size), 1
    else:
        found, wanted, submissions = hvd.grouped_reducescatter(tensors, op=hvd.Sum, name="masks"), float(size), 2
    assert [each.requires_grad for each in found] == [False, True, False, True]
    for creates_graph in (False, True):
        before = hvd.counters().submissions
        (gradient,) = torch.autograd.grad(found[1].sum(), x, retain_graph=True, create_graph=creates_graph)
        assert torch.equal(gradient, torch.full((size,), wanted))
        assert hvd.counters().submissions == before + submissions


@check
def reductions_without_a_gradient_say_so() -> None:
    x = torch.ones(hvd.size(), requires_grad=True)
    for op in (hvd.Min, hvd.Max, hvd.Product):
        loss = hvd.allreduce(x, op=op).sum() + (x**2).sum()
        expect_error(
            NotImplementedError, lambda loss=loss: torch.autograd.grad(loss, x, create_graph=True), "allreduce with op="
        )
        loss = hvd.reducescatter(x, op=op).sum()
        expect_error(NotImplementedError, loss.backward, "reducescatter with op=")
