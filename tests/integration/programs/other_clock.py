"""Runs a program whose CLOCK_MONOTONIC is 5,000 s ahead on every worker but the first: hosts have different clocks.

other_clock.py PROGRAM ARGUMENT...
"""

import os
import sys

COMMAND = [sys.executable, *sys.argv[1:]]
if os.environ["FARANDOLE_LAUNCH_INDEX"] != "0":
    COMMAND = ["unshare", "--time", "--monotonic", "5000", *COMMAND]
os.execvp(COMMAND[0], COMMAND)
