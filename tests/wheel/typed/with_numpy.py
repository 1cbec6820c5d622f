"""The operations on arrays, with their types."""

from typing import Any, List, assert_type

import farandole.numpy as hvd
import numpy as np
from numpy.typing import NDArray

Array = np.ndarray[Any, np.dtype[Any]]

hvd.init(process_sets=[hvd.ProcessSet([0])])
ones: NDArray[np.float32] = np.ones((4, 8), np.float32)

# An array of any shape and element type.
total: Array = hvd.allreduce(ones, op=hvd.Sum, name="ones", process_set=hvd.global_process_set)
total = hvd.allreduce_(ones, average=True, prescale_factor=0.5)
total = hvd.allgather([1, 2, 3])
total = hvd.broadcast(3.5, root_rank=0)
total = hvd.reducescatter(ones, op=hvd.Min)
total = hvd.arena((4, 8), np.float32, "arena")
totals: List[Array] = hvd.grouped_allreduce([ones, ones])

handle = hvd.allreduce_async(ones)
assert_type(handle, hvd.Handle)
assert_type(hvd.poll(handle), bool)
total = hvd.synchronize(handle)

names: List[str] = hvd.allgather_object("worker")
settings = hvd.broadcast_object({"lr": 0.1}, root_rank=0)
hvd.barrier()


@hvd.elastic.run
def train(state: hvd.elastic.ObjectState, steps: int) -> float:
    """A decorated function keeps its type of result."""
    state.commit()
    return float(steps)


assert_type(train(hvd.elastic.ObjectState(step=0), 3), float)
print(hvd.__version__, hvd.rank(), hvd.size())
