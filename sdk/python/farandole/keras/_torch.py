"""Keras on PyTorch: gradients and values travel by farandole.torch's operations."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

import torch

from .. import torch as hvd
from .._agreement import expect_equal_tensors
from .._handles import synchronize
from .._keras.exchange import ArrayExchange, Terms, name_of
from ..process_sets import ProcessSet
from ..torch import Compression as Compression
from ..torch import join as join
from ..torch.backward_mark import BackwardMark
from ._memory import in_own_memory


class Exchange(ArrayExchange):
    """Reduces gradients in place: PyTorch makes others in the next step. From the second step on it marks the section
    "backward" of the program (docs/diagnosis.md)."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._backward = BackwardMark()
        # As values, so that no other variable gets their ids.
        self._hooked: Dict[int, Any] = {}

    def run(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        listed: Sequence[int],
    ) -> Any:
        """See derived.Exchange."""
        self._backward.end()  # of a pass that has failed
        for variable in variables:
            if id(variable) not in self._hooked:
                self._hooked[id(variable)] = variable
                self._hook(variable.value)
        return super().run(optimizer, gradients, variables, step, listed)

    def _hook(self, value: torch.Tensor) -> None:
        def note(_value: torch.Tensor) -> None:
            if not self._backward.number:
                self._backward.begin()

        if value.is_leaf and value.requires_grad:
            value.register_post_accumulate_grad_hook(note)

    def is_traced(self, gradients: Sequence[Any]) -> bool:
        """See ArrayExchange."""
        return False

    def zeros(self, variable: Any) -> Any:
        """See ArrayExchange."""
        return torch.zeros_like(variable.value.detach())

    def spoiled(self, array: Any, others: List[Any]) -> Any:
        """See ArrayExchange."""
        are_finite = [torch.isfinite(each).all() for each in others]
        return torch.where(torch.stack(are_finite).all(), array, torch.nan)

    def allreduce(self, name: str, arrays: List[Any], marked: Tuple[int, ...]) -> List[Any]:
        """See ArrayExchange."""
        factors = (1.0 / self.terms.predivide, self.terms.predivide)
        marker = arrays[0].new_zeros(marked) if arrays else torch.zeros(marked)
        tensors = [marker, *in_own_memory(arrays)]
        call = (tensors, None, f"{name}.gradients", self.terms.op, *factors, self.terms.process_set)
        with torch.no_grad():
            outputs: List[Any] = synchronize(hvd.grouped_allreduce_async_(*call))
        return outputs[1:]

    def run_stateless(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        unchanged: Any,
    ) -> Any:
        """See derived.Exchange."""
        total = self.sums.add(gradients)
        return unchanged if total is None else step(self.reduce(name_of(optimizer), total, variables))


def why_not_compiled() -> Optional[str]:
    """Why XLA cannot compile a step with the operations; None: it can, or has no part in it."""
    return None


def make_exchange(terms: Terms) -> Exchange:
    """How an optimizer exchanges its gradients."""
    return Exchange(terms)


def _tensor(value: Any) -> torch.Tensor:
    import keras

    tensor: torch.Tensor = keras.ops.convert_to_tensor(value)
    return tensor


def allreduce(
    value: Any, op: int, factors: Tuple[float, float], name: Optional[str], compression: Type, process_set: ProcessSet
) -> Any:
    """See farandole.keras.ops."""
    sent, context = compression.compress(_tensor(value))
    reduced = hvd.allreduce(sent, None, name, Compression.none, op, *factors, process_set)
    return compression.decompress(reduced, context)


def allgather(value: Any, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return hvd.allgather(_tensor(value), name, process_set)


def broadcast(value: Any, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return hvd.broadcast(_tensor(value), root_rank, name, process_set)


def reducescatter(value: Any, op: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return hvd.reducescatter(_tensor(value), name=name, op=op, process_set=process_set)


def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set: ProcessSet) -> None:
    """Gives the root's values to all ranks, where they lie."""
    shapes = [(list(variable.shape), str(variable.dtype)) for variable in variables]
    expect_equal_tensors("broadcast_variables", root_rank, shapes, process_set)
    with torch.no_grad():
        handles = [
            hvd.broadcast_async_(variable.value.data, root_rank, f"broadcast_variables.{index}", process_set)
            for index, variable in enumerate(variables)
        ]
        for handle in handles:
            synchronize(handle)
