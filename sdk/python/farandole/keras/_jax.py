"""Keras on JAX: arrays travel by the calls of farandole.jax, within compiled functions as well."""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Type

import jax
import numpy
from jax import numpy as jnp
from jax.experimental import io_callback

from .. import jax as hvd
from .. import numpy as host
from .._agreement import expect_equal_tensors
from .._handles import synchronize
from .._keras.exchange import ArrayExchange, Terms, name_of
from ..jax.arrays import kept_zeros
from ..jax.compression import Compression as Compression
from ..jax.ops import as_sent, is_traced
from ..jax.ops import join as join
from ..process_sets import ProcessSet


class Exchange(ArrayExchange):
    """Reduces gradients, in eager code and in what is compiled: all of a step in one call."""

    def is_traced(self, gradients: Sequence[Any]) -> bool:
        """See ArrayExchange."""
        given = [each for each in gradients if each is not None]
        return any(isinstance(each, jax.core.Tracer) for each in given) if given else is_traced()

    def zeros(self, variable: Any) -> Any:
        """See ArrayExchange."""
        return jnp.zeros(variable.shape, variable.dtype)

    def spoiled(self, array: Any, others: List[Any]) -> Any:
        """See ArrayExchange."""
        are_finite = [jnp.isfinite(each).all() for each in others]
        return jnp.where(jnp.stack(are_finite).all(), array, jnp.nan)

    def allreduce(self, name: str, arrays: List[Any], marked: Tuple[int, ...]) -> List[Any]:
        """See ArrayExchange."""
        predivide, process_set = self.terms.predivide, self.terms.process_set
        make = jnp.zeros if is_traced(*arrays) else kept_zeros
        reduced: List[Any] = hvd.grouped_allreduce(
            [make(marked, arrays[0].dtype if arrays else jnp.dtype("float32")), *arrays],
            name=f"{name}.gradients",
            op=self.terms.op,
            prescale_factor=1.0 / predivide,
            postscale_factor=predivide,
            process_set=process_set,
        )
        return reduced[1:]

    def run(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        listed: Sequence[int],
    ) -> Any:
        """See derived.Exchange. NotImplementedError: passes are to be added up where the step is compiled."""
        if self.is_traced(gradients) and self.terms.passes > 1:
            raise NotImplementedError("backward_passes_per_step in a compiled step on JAX needs stateless_apply()")
        return super().run(optimizer, gradients, variables, step, listed)

    def run_stateless(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        unchanged: Any,
    ) -> Any:
        """See derived.Exchange."""
        name = name_of(optimizer)
        if not self.is_traced(gradients) or self.terms.passes == 1:
            total = self.sums.add(gradients)
            return unchanged if total is None else step(self.reduce(name, total, variables))
        is_last, sums = self._sum_traced(gradients)
        # Both branches give the same structure.
        return jax.lax.cond(
            is_last, lambda: tuple(map(list, step(self.reduce(name, sums, variables)))), lambda: unchanged
        )

    def _sum_traced(self, gradients: List[Any]) -> Tuple[Any, List[Any]]:
        """Whether this is the last of the passes, and if so their sums, which the host keeps from step to step."""
        given = [index for index, each in enumerate(gradients) if each is not None]

        def add(*arrays: Any) -> Tuple[Any, ...]:
            # Another program may have gradients of other variables.
            every: List[Any] = [None] * len(gradients)
            for index, array in zip(given, arrays):
                every[index] = numpy.asarray(array)
            total = self.sums.add(every)
            sums = [numpy.zeros_like(every[index]) if total is None else total[index] for index in given]
            return (numpy.bool_(total is not None), *(each.astype(own.dtype) for each, own in zip(sums, arrays)))

        like = [jax.ShapeDtypeStruct(gradients[index].shape, gradients[index].dtype) for index in given]
        shapes = (jax.ShapeDtypeStruct((), jnp.bool_), *like)
        is_last, *added = io_callback(add, shapes, *(gradients[index] for index in given))
        outputs = list(gradients)
        for index, each in zip(given, added):
            outputs[index] = each
        return is_last, outputs


def why_not_compiled() -> Optional[str]:
    """Why XLA cannot compile a step with the operations; None: it can, or has no part in it."""
    return None


def make_exchange(terms: Terms) -> Exchange:
    """How an optimizer exchanges its gradients."""
    return Exchange(terms)


def allreduce(
    value: Any, op: int, factors: Tuple[float, float], name: Optional[str], compression: Type, process_set: ProcessSet
) -> Any:
    """See farandole.keras.ops."""
    return hvd.allreduce(jnp.asarray(value), None, name, compression, op, *factors, process_set)


def allgather(value: Any, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops. In a compiled function all ranks have equally many rows."""
    return hvd.allgather(jnp.asarray(value), name, process_set)


def broadcast(value: Any, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return hvd.broadcast(jnp.asarray(value), root_rank, name, process_set)


def reducescatter(value: Any, op: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return hvd.reducescatter(jnp.asarray(value), name, op=op, process_set=process_set)


def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set: ProcessSet) -> None:
    """Gives the root's values to all ranks."""
    sent, restore = zip(*(as_sent(variable.value) for variable in variables)) if variables else ((), ())
    values = [numpy.asarray(array) for array in sent]
    shapes = [(value.shape, value.dtype.name) for value in values]
    expect_equal_tensors("broadcast_variables", root_rank, shapes, process_set)
    handles = [
        host.broadcast_async(value, root_rank, f"broadcast_variables.{index}", process_set)
        for index, value in enumerate(values)
    ]
    for variable, handle, restored in zip(variables, handles, restore):
        variable.assign(restored(jnp.asarray(synchronize(handle))))
