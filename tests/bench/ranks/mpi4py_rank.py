"""A rank of Open MPI under mpi4py, with NumPy: `mpirun -np N python3 mpi4py_rank.py SOCKET`. MPI cannot add float16."""

import numpy as np
from mpi4py import MPI
from orders import Buffers, Order, serve

WORLD = MPI.COMM_WORLD


class _Exercise(Buffers):
    def __init__(self, order: Order) -> None:
        assert order["dtype"] == "f32", order
        super().__init__(
            [np.empty(order["count"], np.float32) for _ in range(order["tensors"])], WORLD.rank, WORLD.size
        )
        self.step = getattr(self, f"_{order['kind']}")

    def _one(self) -> None:
        WORLD.Allreduce(MPI.IN_PLACE, self.arrays[0])

    def _many(self) -> None:
        for array in self.arrays:
            WORLD.Allreduce(MPI.IN_PLACE, array)

    def _flat(self) -> None:
        flat = np.concatenate(self.arrays)
        WORLD.Allreduce(MPI.IN_PLACE, flat)
        for array, part in zip(self.arrays, np.split(flat, len(self.arrays))):
            array[:] = part


class _Contender:
    name = "mpi4py"

    def __init__(self) -> None:
        self.rank = WORLD.rank
        self.size = WORLD.size
        self.barrier = WORLD.Barrier
        self.exercise = _Exercise


if __name__ == "__main__":
    serve(_Contender())
