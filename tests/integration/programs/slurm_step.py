"""Starts the processes of a step as Slurm does on one host, all at once, each with the variables that srun gives it, and
under the name of Slurm's own program. Ends when all have, with the first code that is not 0.

    slurm_step.py SIZE COMMAND...
"""

import os
import pathlib
import subprocess
import sys

size = int(sys.argv[1])
pathlib.Path("/proc/self/comm").write_text("slurmstepd", encoding="ascii")
step = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "4",
    "SLURM_STEP_NUM_TASKS": str(size),
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_GTIDS": ",".join(map(str, range(size))),
}
tasks = [
    subprocess.Popen(sys.argv[2:], env={**os.environ, **step, "SLURM_PROCID": str(number)}) for number in range(size)
]
codes = [task.wait() for task in tasks]
sys.exit(next((code for code in codes if code), 0))
