"""Adds the ranks' numbers up by farandole and by MPI, of which the one that its argument names begins first."""

import os
import sys

import farandole.numpy as hvd
import numpy

# Debian's, since MPI's own libraries are Debian's; what .venv has of others goes first.
sys.path.append("/usr/lib/python3/dist-packages")
import mpi4py  # noqa: E402

mpi4py.rc.initialize = False
mpi4py.rc.finalize = False
from mpi4py import MPI  # noqa: E402

starts = [MPI.Init, hvd.init] if sys.argv[1] == "mpi" else [hvd.init, MPI.Init]
for start in starts:
    start()
total = hvd.allreduce(numpy.full(4, hvd.rank() + 1.0, dtype=numpy.float32), op=hvd.Sum, name="total")
by_mpi = MPI.COMM_WORLD.allreduce(hvd.rank() + 1.0)
same_rank = hvd.rank() == MPI.COMM_WORLD.Get_rank()
# One write, since mpirun mixes the lines of its processes.
os.write(
    1, f"sum {total[0]} and {by_mpi} of {hvd.size()} on {hvd.cross_size()} hosts, same rank: {same_rank}\n".encode()
)
# Each may end before the other.
for end in [hvd.shutdown, MPI.Finalize] if sys.argv[2] == "mpi" else [MPI.Finalize, hvd.shutdown]:
    end()
