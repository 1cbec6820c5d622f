"""Keras on JAX: arrays travel through the host's memory, within compiled functions by a callback.

A compiled step calls back once, with all of its gradients: JAX runs the programs of a device one after the other, and so
all ranks are in the same call. The callback asks for ranks and sizes, as these may be others in a later epoch.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Type

import jax
import numpy
from jax import numpy as jnp
from jax.experimental import io_callback

from .. import basics
from .. import numpy as hvd
from .._handles import synchronize
from .._keras.exchange import ArrayExchange, Terms
from ..process_sets import ProcessSet


class NoneCompressor:
    """Sends arrays as they are."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """The array to send, and what decompress() needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The received array in its former form."""
        del ctx
        return tensor


class _HalfCompressor:
    dtype: Any

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        """The array to send, and its element type."""
        if tensor.dtype in (jnp.float32, jnp.float64):
            return tensor.astype(cls.dtype), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The received array, of that element type."""
        return tensor if ctx is None else tensor.astype(ctx)


class FP16Compressor(_HalfCompressor):
    """Sends float32 and float64 as float16."""

    dtype = jnp.float16


class BF16Compressor(_HalfCompressor):
    """Sends float32 and float64 as bfloat16."""

    dtype = jnp.bfloat16


class Compression:
    """The compressors that come with Farandole."""

    none: Type = NoneCompressor
    fp16: Type = FP16Compressor
    bf16: Type = BF16Compressor


def _is_traced(arrays: Sequence[Any]) -> bool:
    return any(isinstance(each, jax.core.Tracer) for each in arrays)


def _like(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _on_host(array: Any) -> numpy.ndarray:
    return numpy.asarray(array)


class Exchange(ArrayExchange):
    """Reduces gradients, in eager code and in what is compiled."""

    def _allreduce_on_host(self, name: str, arrays: Sequence[Any]) -> List[numpy.ndarray]:
        factors = (1.0 / self.terms.predivide, self.terms.predivide)
        given = [_on_host(each) for each in arrays]
        call = (given, None, f"{name}.gradients", self.terms.op, *factors, self.terms.process_set)
        outputs: List[numpy.ndarray] = hvd.grouped_allreduce(*call) if given else []
        return outputs

    def allreduce(self, name: str, arrays: List[Any]) -> List[Any]:
        """See ArrayExchange. Not of what is traced."""
        return [jnp.asarray(each) for each in self._allreduce_on_host(name, arrays)]

    def run(
        self, optimizer: Any, gradients: List[Any], variables: Sequence[Any], step: Callable[[List[Any]], Any]
    ) -> Any:
        """See derived.Exchange. NotImplementedError: passes are to be added up where the step is compiled."""
        if not _is_traced([each for each in gradients if each is not None]):
            return super().run(optimizer, gradients, variables, step)
        if self.terms.passes > 1:
            raise NotImplementedError("backward_passes_per_step in a compiled step on JAX needs stateless_apply()")
        return step(self._reduce_traced(optimizer.name, gradients, variables))

    def run_stateless(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        unchanged: Any,
    ) -> Any:
        """See derived.Exchange."""
        if not _is_traced([each for each in gradients if each is not None]):
            total = self.sums.add(gradients)
            return unchanged if total is None else step(self.reduce(optimizer.name, total, variables))
        if self.terms.passes == 1:
            return step(self._reduce_traced(optimizer.name, gradients, variables))
        is_last, reduced = self._sum_traced(optimizer.name, gradients, variables)
        # Both branches give the same structure.
        return jax.lax.cond(is_last, lambda: tuple(map(list, step(reduced))), lambda: unchanged)

    def _reduce_traced(self, name: str, gradients: List[Any], variables: Sequence[Any]) -> List[Any]:
        """As reduce(), in a program that is compiled now."""
        outputs = list(gradients)
        shared, local = self.split(gradients, variables)
        sent = [self.terms.compression.compress(gradients[index]) for index in shared]

        def exchange(*arrays: Any) -> Tuple[Any, ...]:
            scale = 1.0 / (self.terms.process_set.size() or 1)
            return (numpy.float32(scale), *self._allreduce_on_host(name, arrays))

        shapes = (jax.ShapeDtypeStruct((), jnp.float32), *(_like(each) for each, _ in sent))
        scale, *received = io_callback(exchange, shapes, *(each for each, _ in sent))
        for index, reduced, (_, context) in zip(shared, received, sent):
            outputs[index] = self.terms.compression.decompress(reduced, context)
        if self.terms.scales_local:
            for index in local:
                outputs[index] = gradients[index] * scale.astype(gradients[index].dtype)
        return outputs

    def _sum_traced(self, name: str, gradients: List[Any], variables: Sequence[Any]) -> Tuple[Any, List[Any]]:
        """Whether this is the last of the passes, and if so the gradients of all ranks; the host adds them up."""
        given = [index for index, each in enumerate(gradients) if each is not None]
        own = [variables[index] for index in given]

        def exchange(*arrays: Any) -> Tuple[Any, ...]:
            total = self.sums.add([_on_host(each) for each in arrays])
            if total is None:
                return (numpy.bool_(False), *(numpy.zeros(each.shape, each.dtype) for each in arrays))
            reduced = self.reduce(name, total, own)
            return (numpy.bool_(True), *(_on_host(each).astype(given.dtype) for each, given in zip(reduced, arrays)))

        shapes = (jax.ShapeDtypeStruct((), jnp.bool_), *(_like(gradients[index]) for index in given))
        is_last, *received = io_callback(exchange, shapes, *(gradients[index] for index in given))
        outputs = list(gradients)
        for index, each in zip(given, received):
            outputs[index] = each
        return is_last, outputs


def why_not_compiled() -> Optional[str]:
    """Why XLA cannot compile a step with the operations; None: it can, or has no part in it."""
    return None


def make_exchange(terms: Terms) -> Exchange:
    """How an optimizer exchanges its gradients."""
    return Exchange(terms)


def _call(value: Any, shape_of: Callable[[Any], Tuple[int, ...]], function: Callable[[numpy.ndarray], Any]) -> Any:
    """The array that a function of the host makes of one. In a compiled function its shape is what `shape_of` says."""
    array = jnp.asarray(value)
    if not _is_traced([array]):
        return jnp.asarray(function(_on_host(array)))
    output = jax.ShapeDtypeStruct(shape_of(array), array.dtype)
    return io_callback(lambda given: function(_on_host(given)), output, array)


def allreduce(value: Any, op: int, prescale: float, postscale: float, name: Optional[str], compression: Type) -> Any:
    """See farandole.keras.ops."""
    sent, context = compression.compress(jnp.asarray(value))

    def run(array: numpy.ndarray) -> Any:
        return hvd.allreduce(array, None, name, op, prescale, postscale)

    return compression.decompress(_call(sent, lambda array: array.shape, run), context)


def allgather(value: Any, name: Optional[str]) -> Any:
    """See farandole.keras.ops. In a compiled function all ranks have equally many rows."""

    def shape_of(array: Any) -> Tuple[int, ...]:
        rows, *rest = array.shape or (1,)
        return (rows * basics.size(), *rest)

    return _call(value, shape_of, lambda array: hvd.allgather(array, name))


def broadcast(value: Any, root_rank: int, name: Optional[str]) -> Any:
    """See farandole.keras.ops."""
    return _call(value, lambda array: array.shape, lambda array: hvd.broadcast(array, root_rank, name))


def reducescatter(value: Any, op: int, name: Optional[str]) -> Any:
    """See farandole.keras.ops."""

    def shape_of(array: Any) -> Tuple[int, ...]:
        rows, *rest = array.shape
        return (rows // basics.size() + (basics.rank() < rows % basics.size()), *rest)

    return _call(value, shape_of, lambda array: hvd.reducescatter(array, name, op))


def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set: ProcessSet) -> None:
    """Gives the root's values to all ranks."""
    values = [_on_host(variable.value) for variable in variables]
    handles = [
        hvd.broadcast_async(value, root_rank, f"broadcast_variables.{index}", process_set)
        for index, value in enumerate(values)
    ]
    for variable, handle in zip(variables, handles):
        variable.assign(synchronize(handle))
