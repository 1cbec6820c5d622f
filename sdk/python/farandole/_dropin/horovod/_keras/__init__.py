"""The part that Horovod's modules for Keras share, for programs that make optimizers and callbacks of their own with it. They
hand over Keras or its backend first, which is the one of horovod.keras here.
"""

from typing import Any, Optional, Type

from farandole.process_sets import ProcessSet, global_process_set

from horovod import keras as hvd


def create_distributed_optimizer(
    keras: Any,
    optimizer: Any,
    name: Optional[str],
    device_dense: str,
    device_sparse: str,
    compression: Type,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """As horovod.keras.DistributedOptimizer."""
    del keras
    return hvd.DistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def allreduce(
    backend: Any,
    value: Any,
    name: Optional[str],
    average: Optional[bool],
    prescale_factor: float,
    postscale_factor: float,
    op: Optional[int],
    compression: Type,
) -> Any:
    """As horovod.keras.allreduce."""
    del backend
    return hvd.allreduce(
        value,
        name,
        average,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        op=op,
        compression=compression,
    )


def allgather(backend: Any, value: Any, name: Optional[str]) -> Any:
    """As horovod.keras.allgather."""
    del backend
    return hvd.allgather(value, name)


def broadcast(backend: Any, value: Any, root_rank: int, name: Optional[str]) -> Any:
    """As horovod.keras.broadcast."""
    del backend
    return hvd.broadcast(value, root_rank, name)


def reducescatter(backend: Any, value: Any, name: Optional[str], op: int) -> Any:
    """As horovod.keras.reducescatter."""
    del backend
    return hvd.reducescatter(value, name, op)


def broadcast_global_variables(backend: Any, root_rank: int) -> Any:
    """As horovod.keras.broadcast_global_variables."""
    del backend
    return hvd.broadcast_global_variables(root_rank)
