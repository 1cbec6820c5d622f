"""The job of a tape: it is warm before the coordinator is killed, and negotiates, keeps a checkpoint and ends afterwards."""

import pathlib
import sys

import farandole.numpy as hvd
import numpy as np
from farandole import checkpoint

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "programs"))
from at_gate import wait_at  # noqa: E402  pylint: disable=wrong-import-position

hvd.init()
pair = hvd.add_process_set(hvd.ProcessSet([0, 1]))
for _ in range(3):
    hvd.allreduce(np.ones(4, np.float32), name="gradient")
    if pair.included():
        hvd.allreduce(np.ones(4, np.float32), name="of a set", process_set=pair)
print("warm", flush=True)
wait_at(sys.argv[1])
hvd.allreduce(np.ones(4, np.float32), name="gradient")
hvd.allgather(np.ones((hvd.rank() + 1, 2), np.float32), name="of a new name")
hvd.barrier()
checkpoint.save(lambda path: pathlib.Path(path).write_text("state"), sys.argv[2], 7, name="net", extension="txt")
hvd.shutdown()
