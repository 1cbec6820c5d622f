"""An elastic job that adds up step numbers until its test wishes it to stop, by a file; a step that is lost or done
twice is seen in the sum.

    elastic_stepping.py DIRECTORY [--die WHERE]

Each rank gives 12 / size() * step, so the sum is the same for any number of ranks. WHERE a worker that has a file
DIRECTORY/die-INDEX kills itself, once: in `reset` (of a new epoch), in `sync` (the second half of its state), in `step`
(with a submission pending) or in `save` (of the state with which an epoch is left). WHERE is `hang`: it waits for ever
before a step, and its library lives.
"""

import argparse
import os
import pathlib
import signal
import threading

import farandole.numpy as hvd
import numpy as np
from farandole.exceptions import HostsUpdatedInterrupt

STEPS_PER_COMMIT = 5


class State(hvd.elastic.ObjectState):
    """Sends a large part and a small one, between which a worker may die. Leaves an epoch with its peers' consent."""

    is_leaving = False

    def check_host_updates(self) -> None:
        try:
            super().check_host_updates()
        except HostsUpdatedInterrupt:
            State.is_leaving = True
            raise

    def save(self) -> None:
        if State.is_leaving:
            State.is_leaving = False
            die_in("save")
            hvd.barrier()
        super().save()

    def sync_from(self, root_rank: int) -> None:
        self.ballast = hvd.broadcast_object(self.ballast, root_rank)
        die_in("sync")
        super().sync_from(root_rank)


def die_in(place: str) -> None:
    """Does what the test wishes."""
    order = DIRECTORY / f"die-{os.environ['FARANDOLE_LAUNCH_INDEX']}"
    if WHERE == place and order.exists():
        order.unlink()
        if place == "hang":
            threading.Event().wait()
        os.kill(os.getpid(), signal.SIGKILL)


@hvd.elastic.run
def train(state: State) -> int:
    print(f"epoch of {hvd.size()} as rank {hvd.rank()} from step {state.step}")
    while not state.stop:
        wish = 1.0 if hvd.rank() == 0 and (DIRECTORY / "stop").exists() else 0.0
        die_in("hang")
        handle = hvd.allreduce_async(np.full(1000, 12 / hvd.size() * state.step), op=hvd.Sum, name="steps")
        die_in("step")
        state.sum += hvd.synchronize(handle)
        state.stop = hvd.allreduce(np.array(wish), op=hvd.Sum, name="wish") > 0
        state.step += 1
        if state.step % STEPS_PER_COMMIT == 0:
            state.commit()
        else:
            state.check_host_updates()
        if state.step % 50 == 0:
            print(f"step {state.step} of {hvd.size()}")
    return state.step


def main() -> None:
    hvd.init()
    state = State(sum=np.zeros(1000), step=0, stop=False)
    state.ballast = os.urandom(1 << 20)
    state.register_reset_callbacks([lambda: die_in("reset")])
    steps = train(state)
    assert (state.sum == 12 * steps * (steps - 1) / 2).all(), (state.sum[:3], steps)
    print(f"done after {steps} steps, in an epoch of {hvd.size()}")


parser = argparse.ArgumentParser()
parser.add_argument("directory", type=pathlib.Path)
parser.add_argument("--die", default="")
arguments = parser.parse_args()
DIRECTORY, WHERE = arguments.directory, arguments.die

if __name__ == "__main__":
    main()
