"""Rank 1, which reaches the coordinator by another address (the argument), and rank 0 ask for different process sets;
then for the same. Rank 0 asks when its test lets it through (gates.py)."""

import os
import sys

import farandole as hvd
from at_gate import wait_at

_, gate, relay = sys.argv
number = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
if number == 1:
    os.environ["FARANDOLE_COORDINATOR"] = relay
hvd.init()
print("has joined", flush=True)
if hvd.rank() == 0:
    wait_at(gate)
try:
    hvd.add_process_set([hvd.rank()])
except ValueError as error:
    print("refused:", error, flush=True)
# As rank 0 had asked for, but now both do.
hvd.add_process_set([0])
print("made", flush=True)
