"""The process whose number in the launch is the first argument ends with the code that is the second one, before init;
the others wait for it, in the launch's job or in one of the numbers that the third argument has ("2-1"). With a path as
the fourth argument they call init only when that process is gone."""

import os
import pathlib
import sys
import time

import farandole

number = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["SLURM_PROCID"])
pid_file = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
if number == int(sys.argv[1]):
    if pid_file is not None:
        written = pid_file.with_suffix(".partial")
        written.write_text(str(os.getpid()))
        written.rename(pid_file)
    sys.exit(int(sys.argv[2]))
while pid_file is not None and not (pid_file.exists() and not os.path.exists(f"/proc/{pid_file.read_text()}")):
    time.sleep(0.01)
members = [int(member) for part in sys.argv[3:4] for member in part.split("-") if member]
farandole.init(members if number in members else [number] if members else None)
print(f"joined a job of {farandole.size()}", flush=True)
