"""Forms jobs or process sets of the even and the odd ranks by an MPI communicator: `job` or `set`."""

import os
import sys

import farandole.numpy as hvd
import numpy

# Debian's, since MPI's own libraries are Debian's; what .venv has of others goes first.
sys.path.append("/usr/lib/python3/dist-packages")
from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD
half = world.Split(world.Get_rank() % 2, -world.Get_rank())
if sys.argv[1] == "job":
    hvd.init(comm=half)
    assert (hvd.rank(), hvd.size()) == (half.Get_rank(), half.Get_size())
    process_set = hvd.global_process_set
else:
    process_set = hvd.ProcessSet(half)
    hvd.init(comm=world, process_sets=[process_set])
    assert hvd.rank() == world.Get_rank() and process_set.size() == half.Get_size() and process_set.included()
ranks = hvd.allgather(numpy.array([world.Get_rank()]), process_set=process_set).tolist()
os.write(1, f"with {ranks}\n".encode())
hvd.shutdown()
