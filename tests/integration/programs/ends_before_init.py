"""The process whose number in the launch is the first argument ends with the code that is the second one, before init;
the others wait for it, in the launch's job or in one of the numbers that the third argument has ("2-1")."""

import os
import sys

import farandole

number = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["SLURM_PROCID"])
if number == int(sys.argv[1]):
    sys.exit(int(sys.argv[2]))
members = [int(member) for part in sys.argv[3:] for member in part.split("-")]
farandole.init(members if number in members else [number] if members else None)
print(f"joined a job of {farandole.size()}", flush=True)
