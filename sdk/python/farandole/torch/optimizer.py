"""DistributedOptimizer: any torch.optim optimizer, with gradients that are reduced over the ranks."""

import numbers
import operator
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional, Tuple, Type

import torch

from .. import _options
from .._sections import section
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import NAMES, Adasum, Average, Sum, choose
from .adasum import DistributedSteps
from .compression import Compression
from .exchange import GradientExchange, Settings
from .gradients import Grouping
from .horovod_attributes import Groups, HorovodAttributes
from .loss import reduce_loss
from .parameter_names import Named, SpareNames, unnamed
from .reducer import Reducer


class _Distributed(HorovodAttributes):
    """Goes before an optimizer's own class: the methods that differ."""

    op: int
    process_set: ProcessSet
    gradient_predivide_factor: float
    sparse_as_dense: bool
    _reducer: Reducer
    _should_synchronize: bool = True

    def synchronize(self) -> None:
        """Waits until all gradients are reduced; step() does so by itself. To be used with skip_synchronize(), to see
        gradients before the step:

            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()

        ValueError: ranks disagree about a gradient. EpochEnded: a worker has died or left.
        """
        self.share_groups()
        self._reducer.follow(self.param_groups)
        self._reducer.synchronize()
        self._reducer.synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it, step() does not synchronize: it has been done."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    @property
    def backward_passes_per_step(self) -> int:
        """How many backward passes are added up before gradients travel."""
        return self._reducer.passes

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes are added up before gradients travel, from the next step on."""
        self._reducer.set_passes(_check_passes(passes))

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Reduces the gradients and makes the optimizer's step.

        With a closure, the gradients of each of its calls are reduced, and the loss that it returns too: optimizers
        that decide by the loss (LBFGS) decide alike on all ranks. Called again without a backward pass, it reduces the
        same gradients again. Without a closure it is the section "step" of the program (docs/diagnosis.md).
        """
        self._reducer.backward.end()
        if closure is not None or not self._reducer.active:
            return self._reduce_and_step(closure)
        with section("step"):
            return self._reduce_and_step(None)

    def _reduce_and_step(self, closure: Optional[Callable[[], Any]]) -> Any:
        if self._should_synchronize:
            if closure is not None:
                if self._reducer.outstanding():
                    self.synchronize()
                closure = self._synchronizing(closure)
            else:
                if self._reducer.synchronized:
                    warnings.warn(
                        "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). "
                        "This can cause training slowdown. You may want to consider using optimizer.skip_synchronize() context "
                        "if you use optimizer.synchronize() in your code.",
                        stacklevel=3,
                    )
                self.synchronize()
        self._reducer.synchronized = False
        self._wrapped._opt_called = True  # for schedulers that were made with it, which ask
        return super().step() if closure is None else super().step(closure)

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def synchronized() -> Any:
            loss = closure()
            self.share_groups()
            self._reducer.follow(self.param_groups)
            self._reducer.synchronize()
            return reduce_loss(loss, self._reducer.settings) if self._reducer.active else loss

        return synchronized

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Like the wrapped optimizer's. Gradients that are being reduced are dropped; the next backward pass begins a
        step."""
        self._reducer.abandon()
        return super().load_state_dict(*arguments, **options)

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """Like the wrapped optimizer's. AssertionError: it was called between backward() and step(), while ranks reduce
        the gradients."""
        if self._reducer.outstanding():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
                "This is prohibited as it can cause a race condition."
            )
        super().zero_grad(*arguments, **options)

    def add_param_group(self, param_group: Any) -> None:
        """As the optimizer's; the new parameters' gradients are reduced too. (The next step notices groups that were
        added to the wrapped optimizer.)"""
        self.share_groups()
        super().add_param_group(param_group)
        self._reducer.follow(self.param_groups)

    def forget(self, parameters: Iterable[torch.Tensor]) -> None:
        """As SharesGroups'."""
        self._reducer.forget(parameters)
        self._reducer.follow(self.param_groups)


if TYPE_CHECKING:

    class _DistributedOptimizer(_Distributed, torch.optim.Optimizer):
        """The result of DistributedOptimizer(), for type checkers: its class is made of the optimizer's own."""


def _derive(optimizer: torch.optim.Optimizer, base: Type) -> Any:
    """An optimizer of a class of its own, which has the methods of `base` and, for the rest, all of this one's."""
    # Programs for Horovod look for its name in that of the class.
    module = "horovod.torch.optimizer" if "horovod" in sys.modules else __name__
    # So that loading a state does not have torch call the hooks of steps here too: the inner step does.
    base.step.hooked = True
    made = type(type(optimizer).__name__, (base, type(optimizer)), {"__module__": module})
    distributed = made.__new__(made)
    # Not through the constructor, which would lose state and defaults. A learning rate scheduler may have put a `step` of the old one there.
    distributed.__dict__.update((key, value) for key, value in vars(optimizer).items() if key != "step")
    distributed.share_with(optimizer)
    return distributed


def _check_passes(passes: Any) -> int:
    if not hasattr(passes, "__index__") or passes <= 0:
        raise ValueError(f"backward_passes_per_step must be a whole number, at least 1, not {passes!r}")
    return operator.index(passes)


def _check_predivision(factor: Any, op: int) -> float:
    if not isinstance(factor, numbers.Real) or factor == 0:
        raise ValueError(f"gradient_predivide_factor must be a number other than 0, not {factor!r}")
    if factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    return float(factor)


def _check_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, (_Distributed, DistributedSteps)):
        raise ValueError("the optimizer is a DistributedOptimizer already")
    if not hasattr(optimizer, "param_groups"):
        raise ValueError(f"DistributedOptimizer needs an optimizer of torch.optim, not {optimizer!r}")


def _name_parameters(
    optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]]
) -> Tuple[Named, SpareNames]:
    """Names for all parameters of the optimizer, in the order in which they were named; and those of others."""
    owned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        groups = enumerate(optimizer.param_groups)
        return [(unnamed(i, j), each) for i, group in groups for j, each in enumerate(group["params"])], SpareNames()
    named = list(named_parameters) if hasattr(named_parameters, "__iter__") else [named_parameters]
    if any(not isinstance(entry, tuple) or len(entry) != 2 or not isinstance(entry[0], str) for entry in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by model.named_parameters()."
        )
    names = [name for name, _ in named]
    duplicates = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if duplicates:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(duplicates)}"
        )
    known = {id(parameter) for _, parameter in named}
    missing = [
        f"number {i} of shape {list(parameter.shape)}"
        for i, parameter in enumerate(owned)
        if id(parameter) not in known
    ]
    if missing:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named. Parameters of the optimizer: "
            + ", ".join(missing)
        )
    ids = {id(parameter) for parameter in owned}
    first = {id(parameter): (name, parameter) for name, parameter in reversed(named) if id(parameter) in ids}
    mine = [first[id(parameter)] for name, parameter in named if first.get(id(parameter), (None,))[0] == name]
    return mine, SpareNames(named)


def _make_grouping(groups: Groups, named: Named) -> Optional[Grouping]:
    """The meaning of the argument. ValueError: it has none."""
    if groups is None:
        return None
    if isinstance(groups, int):
        if groups <= 0:
            raise ValueError(f"groups should be a positive integer or a list of lists of torch.Tensor, not {groups}")
        return Grouping(groups)
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, (list, tuple)) for group in groups):
        raise ValueError("groups should be a non-negative integer or a list of lists of torch.Tensor")
    if not all(isinstance(parameter, torch.Tensor) for group in groups for parameter in group):
        raise ValueError("groups must consist of torch.Tensor.")
    known = {id(parameter) for _, parameter in named}
    seen = [id(parameter) for group in groups for parameter in group if id(parameter) in known]
    if len(set(seen)) < len(seen):
        raise ValueError("A parameter can only appear once in groups")
    return Grouping(groups) if seen else None


def _check_compression(compression: Any, op: int, grouping: Optional[Grouping]) -> Any:
    """The meaning of the argument. ValueError: it does not go with the others."""
    if isinstance(compression, type) and issubclass(compression, GradientExchange):
        compression = compression()
    if not hasattr(compression, "compress"):
        raise ValueError(f"compression is a class such as Compression.fp16, not {compression!r}")
    if isinstance(compression, GradientExchange):
        kind = type(compression).__name__
        if op not in (Average, Sum):
            raise ValueError(f"compression={kind} needs op=Average or Sum, not {NAMES[op]}")
        if grouping is not None:
            raise ValueError(f"compression={kind} takes each gradient by itself; leave out groups and num_groups")
    return compression


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,  # pylint: disable=invalid-name; Horovod's
    named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    gradient_arena: Optional[bool] = None,
) -> "_DistributedOptimizer":
    """Returns an optimizer like `optimizer`, also of its class, that reduces gradients over the ranks before each step.

    Gradients travel while backward runs: each as soon as it is there, in batches that the library makes. The new
    optimizer takes over the old one's parameters, options and state; use only the new one. In a job of size 1 it
    behaves like the old one.

    named_parameters: (name, parameter) for all parameters of the optimizer, usually model.named_parameters(); the
    names appear in messages. compression: the form in which gradients travel: Compression.none, fp16 or bf16; or
    Compression.int8() or powersgd(rank), which remember what they have left out and serve one optimizer each.
    backward_passes_per_step: backward passes whose gradients are added up before they travel.
    op: Average, Sum, Min, Max or Product; with Adasum each rank makes its own step, and the changes of the parameters
    are combined (see adasum.py).
    gradient_predivide_factor: with Average, gradients are divided by it before, and the sum by size / it after.
    groups: parameters whose gradients travel as one: a list of lists of parameters, or a number of groups of
    neighbours; num_groups is its older form. In the first step these gradients are reduced in step(). Sparse ones among
    them travel by themselves.
    sparse_as_dense: makes sparse gradients dense. Else their indices and values travel, and they stay sparse; they can
    be averaged and summed only.
    process_set: whose ranks take part; all others keep their own gradients.
    gradient_arena: whether dense gradients lie in memory that the ranks of the host share and reduce in place, from
    the second step on (default: FARANDOLE_GRADIENT_ARENA, which is on). A gradient that is kept beyond the next
    zero_grad() stays what it was.

    Parameters that backward does not reach, or that a rank has frozen, take part with a gradient of zero where another
    rank trains them; what all ranks have frozen stays as it is (limits: docs/pytorch.md). Ranks agree about that in the
    first step, and in each step as long as one of them does not train all parameters. ValueError: an argument is wrong.
    """
    _check_optimizer(optimizer)
    op = choose(op, None)
    gradient_predivide_factor = _check_predivision(gradient_predivide_factor, op)
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`.", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    named, names = _name_parameters(optimizer, named_parameters)
    grouping = _make_grouping(groups, named)
    passes = _check_passes(backward_passes_per_step)
    compression = _check_compression(compression, op, grouping)
    distributed = _derive(optimizer, _Distributed if op != Adasum else DistributedSteps)
    distributed.op, distributed.process_set = op, process_set
    distributed.gradient_predivide_factor, distributed.sparse_as_dense = gradient_predivide_factor, sparse_as_dense
    distributed._groups = groups
    if op == Adasum:
        distributed.combine(named, compression, passes, names)
        return distributed
    settings = Settings(
        compression,
        op,
        1.0 / gradient_predivide_factor,
        gradient_predivide_factor,
        sparse_as_dense,
        process_set,
        _options.gradient_arena() if gradient_arena is None else gradient_arena,
    )
    distributed._reducer = Reducer(settings, passes, names)
    distributed._reducer.add(named, grouping)
    distributed._reducer.follow(distributed.param_groups)
    return distributed
