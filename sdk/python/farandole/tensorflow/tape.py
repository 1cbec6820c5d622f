"""GradientTape whose gradients are those of all ranks."""

from typing import Any, Iterable, List, Optional, Tuple, Type

import tensorflow as tf

from .._sections import marked
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average
from .compression import Compression
from .gradient_exchange import GradientExchange

Pair = Tuple[Any, Any]
"""A source and its gradient."""


class _DistributedTape:
    """Methods that a distributed tape adds to tf.GradientTape."""

    _exchange: GradientExchange

    def register_local_source(self, source: Any) -> None:
        """The gradient of this source stays this rank's own."""
        self._exchange.register_local([source])

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """As tf.GradientTape.gradient, reduced over the ranks. In eager code it is the section "backward" of the program
        (docs/diagnosis.md)."""
        del use_generic_names
        with marked("backward", tf.executing_eagerly()):
            own = super().gradient(target, sources, output_gradients, unconnected_gradients)  # type: ignore[misc]
        flat = tf.nest.flatten(own)
        return tf.nest.pack_sequence_as(
            own, self._exchange.reduce(flat, tf.nest.flatten(sources)), expand_composites=False
        )

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> Tuple[List[Pair], List[Pair]]:
        """As gradient(), in two lists of (source, gradient): of the sources that are registered as local, and of the
        others."""
        found = self.gradient(target, sources, output_gradients, use_generic_names=use_generic_names)
        local: List[Pair] = []
        shared: List[Pair] = []
        for source, gradient in zip(tf.nest.flatten(sources), tf.nest.flatten(found)):
            (local if self._exchange.is_local(source) else shared).append((source, gradient))
        return local, shared


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Type = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Returns a tape whose gradient() returns gradients reduced over all ranks. It keeps what the given tape has
    recorded."""
    del device_dense, device_sparse
    kind = type(gradtape)
    made = kind.__new__(type(kind.__name__, (_DistributedTape, kind), {"__module__": kind.__module__}))
    made.__dict__.update(gradtape.__dict__)
    made._exchange = GradientExchange(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    return made


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Type = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Optional[Iterable[Any]] = None,
    scale_local_gradients: bool = True,
) -> Any:
    """As DistributedGradientTape; the gradients of `local_layers` stay this rank's own."""
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    layers = [local_layers] if hasattr(local_layers, "trainable_variables") else list(local_layers or [])
    for layer in layers:
        for variable in layer.trainable_variables:
            tape.register_local_source(variable)
    return tape
