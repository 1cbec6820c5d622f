"""mpi4py's communicators, as far as they name ranks. This package does not import mpi4py: a program that has a
communicator has imported it."""

import sys
from typing import Any, List, Optional


def is_communicator(given: Any) -> bool:
    """Whether it is an mpi4py communicator."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(given, mpi.Comm)


def are_possible() -> bool:
    """Whether the program has imported mpi4py."""
    return "mpi4py.MPI" in sys.modules


def world_ranks(communicator: Any) -> Optional[List[int]]:
    """Ranks in MPI_COMM_WORLD of its processes, in its own order; None: all, in the order of the world. Collective."""
    world = sys.modules["mpi4py.MPI"].COMM_WORLD
    ranks = communicator.allgather(world.Get_rank())
    return None if ranks == list(range(world.Get_size())) else ranks


def gather(communicator: Any, value: int) -> List[int]:
    """The values of all its processes. Collective."""
    return communicator.allgather(value)
