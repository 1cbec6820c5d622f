"""The functions that start all ranks from one state, by Horovod's name."""

from farandole.tensorflow import (  # noqa: F401
    ProcessSet,
    allgather,
    allgather_object,
    broadcast,
    broadcast_,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
    global_process_set,
    rank,
    size,
)
