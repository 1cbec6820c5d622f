"""A rank in Python of a job whose ranks are written in several languages: see README.md beside it."""

import farandole.numpy as hvd
import numpy as np

COUNT = 1000


def fingerprint(values: np.ndarray) -> int:
    """FNV-1a over the bytes: equal to the bit, or not."""
    found = 0xCBF29CE484222325
    for byte in values.tobytes():
        found = ((found ^ byte) * 0x100000001B3) % (1 << 64)
    return found


def main() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    gradient = np.array([(37 * i + 11 * rank) % 1000 for i in range(COUNT)], np.float32) / np.float32(7)
    gradient = hvd.allreduce(gradient, op=hvd.Sum, name="gradient")
    from_last = hvd.broadcast(np.array([100 + rank], np.int64), root_rank=size - 1, name="from last")
    rows = hvd.allgather(np.full((rank + 1, 2), rank, np.int32), name="rows")
    try:
        hvd.allreduce(np.zeros(2 + rank), name="disagreement")
        refusal = "nobody disagrees"
    except ValueError as error:
        refusal = str(error)
    hvd.allreduce(np.zeros(2), name="disagreement")
    print(f"Python: gradient {fingerprint(gradient):016x}, from last {from_last[0]}, rows {len(rows)}, {refusal}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
