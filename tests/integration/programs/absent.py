"""Worker 1 does not join: it is killed (`absent.py killed`), or waits at a gate of its test (`absent.py PATH`)."""

import os
import signal
import sys

import farandole
from at_gate import wait_at


def main() -> None:
    if os.environ["FARANDOLE_LAUNCH_INDEX"] == "1":
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        wait_at(sys.argv[1])
    try:
        farandole.init()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(3)


if __name__ == "__main__":
    main()
