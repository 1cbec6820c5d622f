"""Process sets across the epochs of an elastic job: prints, in each, which there are, until its test wishes it to stop."""

import os
import pathlib
import sys
import threading

import farandole.numpy as hvd
import numpy as np

first, both = hvd.ProcessSet([0]), hvd.ProcessSet([1, 2])


@hvd.elastic.run
def train(state: hvd.elastic.ObjectState) -> None:
    known = [each for each in (first, both, *state.more) if each.process_set_id is not None]
    for each in known:
        if each.included():
            total = hvd.allreduce(np.ones(2), op=hvd.Sum, name="in a set", process_set=each)
            assert total.tolist() == [each.size()] * 2
    print(f"epoch of {hvd.size()} with sets {[each.ranks for each in known]}", flush=True)
    while not state.stop:
        wish = hvd.rank() == 0 and (pathlib.Path(sys.argv[1]) / "stop").exists()
        state.stop = hvd.allreduce(np.array(wish), op=hvd.Max, name="wish").item()
        state.commit()


if os.environ["FARANDOLE_LAUNCH_INDEX"] == os.environ.get("DIES_BEFORE_ITS_SETS"):
    hvd.init()
    threading.Event().wait(1)  # the others wait for it
    os._exit(1)
hvd.init(process_sets=[first, both])
mine = hvd.elastic.ObjectState(stop=False)
# Collective: a newcomer would meet no other rank.
is_first = int(os.environ["FARANDOLE_LAUNCH_INDEX"]) < 3 and hvd.size() == 3
mine.more = [hvd.add_process_set([0, 1])] if is_first else []
train(mine)
print("done", flush=True)
