"""The functions that start all ranks from one state, by Horovod's name."""

from farandole.torch import (  # noqa: F401
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
