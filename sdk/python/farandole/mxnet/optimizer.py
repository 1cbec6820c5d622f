"""Gluon's trainer and Module's optimizer, over the gradients of all ranks.

Gradients are added up over the ranks, and the optimizer's rescale_grad divides them by their number: a multiplication that
it makes anyway.
"""

import warnings
from typing import Any, List, Optional, Sequence, Type

import mxnet as mx

from .. import _ops
from .._sections import section
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Sum
from .compression import Compression, Compressor
from .ops import reduce_gradients
from .presence import Comparison, marker


def _checked_factor(factor: Any) -> float:
    _ops.check_factors(factor, 1.0)
    if float(factor) <= 0:
        raise ValueError(f"gradient_predivide_factor is a number > 0, not {factor!r}")
    return float(factor)


class _Exchange:
    """How the gradients of a step become the sums over the ranks."""

    def __init__(
        self, factor: float, num_groups: int, process_set: ProcessSet, compression: Type[Compressor] = Compression.none
    ) -> None:
        self.factor = _checked_factor(factor)
        self.process_set = process_set
        self._num_groups = num_groups
        self._compression = compression

    def scale(self) -> float:
        """The factor for the sums."""
        return self.factor / (self.process_set.size() or 1)

    def reduce(
        self,
        gradients: Sequence[mx.nd.NDArray],
        names: Sequence[str],
        priorities: Sequence[int],
        group: Optional[str] = None,
    ) -> None:
        """In place. The first of a step are those that the next one needs first. `group`: how the names of groups begin; None:
        they are made of the names of their first and last gradient."""
        if self.process_set.size() == 1 and self.factor == 1.0:
            return
        pairs = [self._compression.compress(gradient) for gradient in gradients]
        sent = [array for array, _ in pairs]
        terms = (Sum, 1.0 / self.factor, self.process_set)
        if self._num_groups > 0:
            for number, (begin, end) in enumerate(self._groups(len(sent))):
                own = f"{names[begin]}:{names[end - 1]}" if group is None else f"{group}.{number}"
                mark = marker(tuple(names[begin:end]), number, sent[begin].dtype)
                reduce_gradients([mark, *sent[begin:end]], own, priorities[begin], *terms)
        else:
            for array, name, priority in zip(sent, names, priorities):
                reduce_gradients([array], name, priority, *terms)
        for gradient, array, (_, context) in zip(gradients, sent, pairs):
            if array is not gradient:
                self._compression.decompress(array, context).copyto(gradient)

    def _groups(self, count: int) -> List[Sequence[int]]:
        groups = min(self._num_groups, count)
        bounds = [number * count // groups for number in range(groups + 1)] if groups else []
        return list(zip(bounds, bounds[1:]))


class DistributedTrainer(mx.gluon.Trainer):
    """A gluon.Trainer whose step() uses the gradients of all ranks of the set, divided by their number."""

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Any = None,
        compression: Type[Compressor] = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: Optional[str] = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """As gluon.Trainer, without a kvstore. All ranks give the same parameters.

        `compression`: the form in which gradients travel. `gradient_predivide_factor` divides them before they are added
        up, and multiplies the sum: it moves a part of the division before the sum. `prefix` begins the names by which they
        travel: two trainers of a program need two. `num_groups`: so many groups of gradients, each reduced as one;
        0: each by itself. ValueError: `prefix` is no string, or the factor no number > 0.
        """
        if prefix is not None and not isinstance(prefix, str):
            raise ValueError(f"prefix is a string, not {prefix!r}")
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn(
                "DistributedTrainer does not take DistributedOptimizer as its optimizer: it takes the one in it",
                stacklevel=2,
            )
            optimizer = optimizer.unwrap()
        self._exchange = _Exchange(gradient_predivide_factor, num_groups, process_set, compression)
        self._prefix = prefix or ""
        self._comparison = Comparison()
        # In an order that all ranks have alike.
        if isinstance(params, (list, tuple)):
            params = sorted(params, key=lambda parameter: parameter.name)
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._own_scale: float = self._optimizer.rescale_grad

    @property
    def _scale(self) -> float:
        """Of gluon.Trainer: the factor for gradients in this epoch of the job, divided by the number of ranks too.
        A value that is set is the whole factor in the present epoch, as it is with Horovod, and follows the number of
        ranks in later ones."""
        return self._own_scale * self._exchange.scale()

    @_scale.setter
    def _scale(self, scale: float) -> None:
        self._own_scale = scale / self._exchange.scale()

    @property
    def _amp_original_scale(self) -> float:
        """Of mxnet.contrib.amp, which keeps here the _scale that it has found, and derives each step's from it. It
        follows the number of ranks as well."""
        return self._own_amp_original_scale * self._exchange.scale()

    @_amp_original_scale.setter
    def _amp_original_scale(self, scale: float) -> None:
        self._own_amp_original_scale = scale / self._exchange.scale()

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """As gluon.Trainer.step, with the gradients of all ranks. It is the section "step" of the program
        (docs/diagnosis.md); MXNet may do its work later."""
        with section("step"):
            super().step(batch_size, ignore_stale_grad)

    def _allreduce_grads(self) -> None:
        """Of gluon.Trainer: called in step(), and by allreduce_grads()."""
        gradients, places = [], []
        for index, parameter in enumerate(self._params):
            if parameter.grad_req != "null":
                replicas = parameter.list_grad()
                if len(replicas) > 1:
                    raise ValueError(
                        f"{parameter.name} is on {len(replicas)} devices of this process; run a process for each device"
                    )
                gradients.append(replicas[0])
                places.append(index)
        self._comparison.make(f"{self._prefix}parameters", self._params, self._exchange.process_set)
        names = [f"{self._prefix}{index}" for index in places]
        self._exchange.reduce(gradients, names, [-index for index in places], f"{self._prefix}group")


class DistributedOptimizer(mx.optimizer.Optimizer):
    """An optimizer for Module that updates with the gradients of all ranks of the set, divided by their number.

    Its rescale_grad contains that division, also where the program sets it; an update follows the number of ranks, which
    changes with the epoch.
    """

    _OWN = ("_optimizer", "_exchange", "_applied")

    def __init__(
        self,
        optimizer: mx.optimizer.Optimizer,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """Wraps `optimizer`, whose attributes are also its own. The other arguments are those of DistributedTrainer; groups
        are of gradients that the optimizer updates together (its aggregate_num)."""
        self._exchange = _Exchange(gradient_predivide_factor, num_groups, process_set)
        self._optimizer = optimizer
        self._applied = 1.0  # the part of rescale_grad that is the exchange's
        self._apply_scale()

    def __getattr__(self, name: str) -> Any:
        if name in DistributedOptimizer._OWN:
            raise AttributeError(name)  # of one that is being unpickled
        return getattr(self._optimizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in DistributedOptimizer._OWN:
            super().__setattr__(name, value)
        else:
            setattr(self._optimizer, name, value)
            if name == "rescale_grad":
                self._applied = self._exchange.scale()

    def __getstate__(self) -> Any:
        return dict(self.__dict__)

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)

    def _apply_scale(self) -> None:
        scale = self._exchange.scale()
        if scale != self._applied:
            self._optimizer.rescale_grad *= scale / self._applied
            self._applied = scale

    def unwrap(self) -> mx.optimizer.Optimizer:
        """The wrapped optimizer, with the rescale_grad that it had before."""
        self._optimizer.rescale_grad /= self._applied
        self._applied = 1.0
        return self._optimizer

    def create_state(self, index: Any, weight: Any) -> Any:
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        return self._optimizer.create_state_multi_precision(index, weight)

    def _reduce(self, index: Any, grad: Any) -> None:
        self._apply_scale()
        is_list = isinstance(index, (tuple, list))
        indices, gradients = (index, grad) if is_list else ([index], [grad])
        # Module numbers parameters, and names them for an optimizer of its own.
        numbers = [each if isinstance(each, int) else 0 for each in indices]
        self._exchange.reduce(gradients, [str(each) for each in indices], [-number for number in numbers])

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        self._optimizer.set_wd_mult(args_wd_mult)
