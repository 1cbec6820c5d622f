"""Steps until a file appears, and fails as its test wishes: SIGUSR1 ends the process without a word, SIGUSR2 raises in the
training code, SIGALRM takes memory until there is no more. Rank 0 writes a byte for every 20 steps to the named pipe
"pulse" beside that file, where there is one. The launch's last worker joins when the test has opened the named pipe
"door" there, if there is one."""

import os
import pathlib
import signal
import sys

import farandole
import farandole.numpy as hvd
import numpy as np

CHUNK = 64 << 20


class Failure(Exception):
    """The training code's exception."""


def fail(_number: int, _frame: object) -> None:
    raise Failure("the training code is wrong")


def take_memory(_number: int, _frame: object) -> None:
    taken = []
    while True:
        taken.append(np.ones(CHUNK, dtype=np.uint8))


def main() -> None:
    stop = pathlib.Path(sys.argv[1])
    signal.signal(signal.SIGUSR1, lambda _number, _frame: os._exit(0))
    signal.signal(signal.SIGUSR2, fail)
    signal.signal(signal.SIGALRM, take_memory)
    door = stop.with_name("door")
    if os.environ["FARANDOLE_LAUNCH_INDEX"] == "3" and door.exists():
        door.read_bytes()
    hvd.init()
    print(f"process {os.getpid()} rank {hvd.rank()}")
    # As large as a small model's gradients: it travels as bulk data, not beside the readiness.
    values = np.ones(100_000, dtype=np.float32)
    pulse = stop.with_name("pulse")
    told = os.open(pulse, os.O_WRONLY) if hvd.rank() == 0 and pulse.exists() else None
    for step in range(10**9):
        values[:] = 1.0
        values[0] = 1.0 if hvd.rank() == 0 and step % 20 == 0 and stop.exists() else 0.0
        hvd.allreduce_(values, op=hvd.Sum, name="gradients")
        assert values[1] == hvd.size()
        if step % 20 == 0:
            print("step", step)
            if told is not None:
                os.write(told, b".")
        if values[0] != 0.0:
            break
    hvd.shutdown()
    print("done")


if __name__ == "__main__":
    try:
        main()
    except farandole.EpochEnded as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(3)
