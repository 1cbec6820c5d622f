"""Fits a line to points that are spread over the workers, by gradient descent with NumPy.

    .venv/bin/farandole run -np 2 .venv/bin/python examples/numpy_allreduce.py

Every worker sees its own points only; allreduce averages their gradients, so that all workers follow the same path.
"""

import farandole.numpy as hvd
import numpy as np

SLOPE, OFFSET = 2.5, -1.0
POINTS = 10_000
STEPS = 200
LEARNING_RATE = 0.5


def main() -> None:
    hvd.init()
    random = np.random.default_rng(seed=hvd.rank())
    x = random.uniform(-1.0, 1.0, POINTS)
    y = SLOPE * x + OFFSET + random.normal(0.0, 0.1, POINTS)

    # Rank 0's guess is everyone's.
    line = hvd.broadcast(random.normal(size=2), root_rank=0, name="start")
    for _ in range(STEPS):
        error = line[0] * x + line[1] - y
        gradient = np.array([np.mean(error * x), np.mean(error)])
        hvd.allreduce_(gradient, op=hvd.Average, name="gradient")
        line -= LEARNING_RATE * gradient

    # As many rows as there are workers, in the order of ranks.
    lines = hvd.allgather(line.reshape(1, 2), name="lines")
    if hvd.rank() == 0:
        same = all(np.array_equal(other, line) for other in lines)
        print(
            f"y = {line[0]:.3f} x + {line[1]:.3f}, from {POINTS * hvd.size():,} points of {hvd.size()} workers, "
            f"{'equal to the bit' if same else 'NOT equal'} on all of them"
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
