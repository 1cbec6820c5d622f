"""Worker 1 ends well before it joins, and the others wait for it."""

import os
import sys

import farandole

if os.environ["FARANDOLE_LAUNCH_INDEX"] == "1":
    sys.exit(0)
farandole.init()
