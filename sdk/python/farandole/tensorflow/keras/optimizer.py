"""Optimizers of tf.keras that apply the gradients of all ranks."""

from typing import Any, Iterable, Optional, Type, Union

from ..._keras import optimizers
from ..._keras.exchange import Terms
from ...process_sets import ProcessSet, global_process_set
from ...reduce_ops import Average
from ._choice import IS_KERAS_3

if IS_KERAS_3:
    from ...keras._backend import backend
else:
    from .. import keras_backend as backend

Compression: Any = backend.Compression


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Type = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """As farandole.keras.DistributedOptimizer, with the arguments in horovod.tensorflow.keras's order; of tf-keras also for its
    legacy optimizers. ValueError: the optimizer is none of Keras, or distributed already."""
    del name, device_dense, device_sparse
    terms = Terms(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        groups if groups is not None else (num_groups or None),
        backward_passes_per_step,
        average_aggregated_gradients,
        process_set,
        scale_local_gradients,
    )
    return optimizers.distribute(optimizer, backend, terms)


def PartialDistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Type = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Union[Any, Iterable[Any], None] = None,
    scale_local_gradients: bool = True,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
) -> Any:
    """As DistributedOptimizer; the gradients of `local_layers`, a layer or several, stay this rank's own. Layers may be built
    later."""
    made = DistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        0,
        groups,
        process_set,
        scale_local_gradients,
    )
    optimizers.set_local_layers(made, local_layers)
    return made
