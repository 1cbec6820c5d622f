"""200 steps that the coordinator should hear nothing of; before and after them the ranks wait for their test."""

import sys

import farandole.numpy as hvd
import numpy as np
from at_gate import wait_at

STEPS = 200


def step(number: int, sets: list) -> None:
    """Allgathers of other rows each time, calls without a name, and sums in two sets that share rank 1."""
    rows = (number + hvd.rank()) % 5
    gathered = hvd.allgather(np.full((rows, 2), hvd.rank()), name="rows")
    assert len(gathered) == sum((number + rank) % 5 for rank in range(hvd.size()))
    assert hvd.allreduce(np.ones(4), op=hvd.Sum)[0] == hvd.size()
    assert hvd.broadcast(np.full(2, hvd.rank()), root_rank=2)[0] == 2
    pending = [
        hvd.allreduce_async(np.ones(3), op=hvd.Sum, name="shared", process_set=each) for each in sets if each.included()
    ]
    pending += [hvd.allreduce_async(np.ones(2), op=hvd.Sum, process_set=each) for each in sets if each.included()]
    for handle in reversed(pending):
        assert hvd.synchronize(handle)[0] == 2


def main() -> None:
    hvd.init()
    sets = [hvd.add_process_set(hvd.ProcessSet(ranks)) for ranks in ([0, 1], [1, 2])]
    for number in range(10):
        step(number, sets)
    hvd.barrier()
    before = hvd.counters()
    print("warm")
    wait_at(sys.argv[1])
    for number in range(STEPS):
        step(number, sets)
    after = hvd.counters()
    print("messages", after.coordinator_messages - before.coordinator_messages)
    wait_at(sys.argv[2])


if __name__ == "__main__":
    main()
