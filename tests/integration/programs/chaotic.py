"""Trains a softmax regression in an elastic job until the file DIRECTORY/stop appears, and keeps a history of what it did in
DIRECTORY/history: a line of JSON for each epoch and each step, from each process. `chaos.py` reads them.

Everything that a step does follows from the state, the rank and the size: its samples are the next ones of the pass, in an
order that the number of the pass gives.
"""

import json
import os
import pathlib
import sys
import time
import zlib

import farandole.numpy as hvd
import numpy as np
from farandole import elastic
from farandole._library import lib

BATCH = 4
RATE = 0.05


class History:
    """The acts of this process; a line is written before the next thing is done, so that a kill loses none."""

    def __init__(self, directory: pathlib.Path) -> None:
        path = directory / f"{os.environ['FARANDOLE_LAUNCH_INDEX']}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, what: str, **fields: object) -> None:
        line = {"what": what, "at": time.monotonic(), "pid": os.getpid(), "epoch": lib.farandole_epoch(), **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def samples_of(state: elastic.ObjectState, count: int) -> np.ndarray:
    """The samples that are left of the pass."""
    return np.random.default_rng(state.passes).permutation(count)[state.position :]


def gradient(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Summed over the samples."""
    scores = images @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1.0
    return images.T @ chances


def step(
    state: elastic.ObjectState, data: "tuple[np.ndarray, np.ndarray]", stop: pathlib.Path, history: History
) -> None:
    images, labels = data
    size, rank = hvd.size(), hvd.rank()
    left = samples_of(state, len(labels))
    taken = min(BATCH * size, len(left))
    mine = np.array_split(left[:taken], size)[rank]
    # Beside the gradient: samples, ranks, and whether rank 0 has been asked to stop.
    counts = [len(mine), 1, 1 if rank == 0 and stop.exists() else 0]
    own = np.concatenate([gradient(state.weights, images[mine], labels[mine]).ravel(), counts]).astype(np.float32)
    total = hvd.allreduce(own, op=hvd.Sum, name="gradient")
    state.weights = state.weights - np.float32(RATE) * total[:-3].reshape(state.weights.shape) / np.float32(taken)
    done = {"step": state.step, "pass": state.passes, "position": state.position, "rank": rank, "size": size}
    sums = [int(total[-3]), int(total[-2])]
    history.add("step", **done, samples=mine.tolist(), sums=sums, digest=zlib.crc32(state.weights.tobytes()))
    state.position += taken
    if state.position == len(labels):
        state.passes, state.position = state.passes + 1, 0
    state.step += 1
    state.stopped = bool(total[-1])


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    data = np.load(directory / "images.npy"), np.load(directory / "labels.npy")
    history = History(directory / "history")
    hvd.init()
    weights = np.zeros((data[0].shape[1], 10), np.float32)

    @elastic.run
    def train(state: elastic.ObjectState) -> None:
        history.add("epoch", rank=hvd.rank(), size=hvd.size(), step=state.step)
        while not state.stopped:
            step(state, data, directory / "stop", history)
            state.commit()

    state = elastic.ObjectState(weights=weights, step=0, passes=0, position=0, stopped=False)
    train(state)
    history.add("done", rank=hvd.rank(), step=state.step, digest=zlib.crc32(state.weights.tobytes()))
    hvd.shutdown()
    print("done")


if __name__ == "__main__":
    main()
