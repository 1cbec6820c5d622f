"""Optimizers of Keras 3 that apply the gradients of all ranks."""

from typing import Any, Dict, Iterable, Optional, Type, Union

import keras

from .._keras import optimizers
from .._keras.exchange import Terms
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average
from ._backend import backend

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
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
) -> Any:
    """An optimizer of the given one's settings, which reduces gradients over the ranks before it applies them. Models that
    are compiled with it are saved as with the given one, and load where there is no Farandole.

    With `backward_passes_per_step` n, a rank adds up the gradients of n steps, and the last of them reduces and applies
    the sum (with `average_aggregated_gradients` the mean). register_local_var(variable) keeps a variable's gradient this rank's own,
    divided by the number of ranks unless `scale_local_gradients` is off. `groups` is for TensorFlow; on JAX and PyTorch all gradients travel
    together. In mixed_float16, give it keras.optimizers.LossScaleOptimizer(optimizer).

    ValueError: the optimizer is none of Keras 3, or distributed already.
    """
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
        0,
        groups,
        process_set,
        scale_local_gradients,
        backward_passes_per_step,
        average_aggregated_gradients,
    )
    optimizers.set_local_layers(made, local_layers)
    return made


def load_model(
    filepath: Any,
    custom_optimizers: Optional[Iterable[Type]] = None,
    custom_objects: Optional[Dict[str, Any]] = None,
    compression: Type = Compression.none,
    legacy_opts: bool = False,
    **options: Any,
) -> Any:
    """Loads a model that was saved with a DistributedOptimizer or without; its optimizer is a distributed one, with the state
    that was saved. On TensorFlow before 2.19, whose XLA cannot call the operations, its step is not compiled by it.

    `custom_optimizers`: classes of the program's own; `options` are those of keras.models.load_model, and `legacy_opts` is Horovod's.
    ValueError: no such model, or none with an optimizer.
    """
    del legacy_opts
    model = optimizers.load_model(keras, backend, filepath, custom_optimizers, custom_objects, compression, options)
    if backend.why_not_compiled() is not None:
        model.jit_compile = False
    return model
