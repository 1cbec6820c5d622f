"""Worker 1 ends well before it joins, and others wait for it: in the launch's job, or where arguments as "0-1" and "2-3"
name workers that form jobs of their own, in one of these."""

import os
import sys

import farandole

number = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
if number == 1:
    sys.exit(0)
parts = [[int(worker) for worker in part.split("-")] for part in sys.argv[1:]]
farandole.init(next((part for part in parts if number in part), None))
print(f"joined a job of {farandole.size()}", flush=True)
