"""Elastic training beside kills, stops, drains and coordinators that come and go, all from a seed, and what its history
must say afterwards. `--seeds A-B` plays these seeds; a failure prints its own.
"""

import gzip
import os
import pathlib
import random
import signal
import sys
import time
from typing import Callable, List

import chaos
import harness
import numpy as np
import pytest
from coordinators import Coordinator
from programs_run import START_SECONDS, Program

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "chaotic.py"
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
SAMPLES = 600
LEAST, MOST = 1, 4
# From an act to the next step, at most: a silent worker takes 3 s, a replacement its start, on a busy machine more.
ON_SECONDS = 60


def write_data(directory: pathlib.Path) -> None:
    """Some of Fashion-MNIST."""
    with gzip.open(IMAGES / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + SAMPLES * 784)[16:], np.uint8).reshape(SAMPLES, 784)
    with gzip.open(IMAGES / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + SAMPLES)[8:], np.uint8)
    np.save(directory / "images.npy", (images / np.float32(255)).astype(np.float32))
    np.save(directory / "labels.npy", labels.astype(np.int64))


class Play:
    """One job, and what is done to it."""

    def __init__(self, seed: int, directory: pathlib.Path, run: Program, coordinator: Coordinator, serve: Callable) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.run = run
        self.coordinator = coordinator
        self.serve = serve
        self.acts: List[str] = []
        # Who leaves in order is not replaced: so many may.
        self.leaves = 2

    def histories(self) -> chaos.Histories:
        return chaos.Histories(self.directory / "history")

    def await_step(self, more: int) -> chaos.Histories:
        """Waits until the last epoch has done `more` steps from now on, or another one has done as many."""
        before = self.histories()
        wanted = {before.last_epoch(): before.steps(before.last_epoch()) + more}
        deadline = time.monotonic() + ON_SECONDS
        while True:
            found = self.histories()
            last = found.last_epoch()
            if found.steps(last) >= wanted.get(last, more):
                return found
            assert self.run.is_running(), f"the job has ended, after {self.acts}:\n{self.run.output[-6000:]}"
            if time.monotonic() > deadline:
                raise AssertionError(f"no step for {ON_SECONDS} s, after {self.acts}:\n{self.run.output[-6000:]}")
            self.run.await_output(0.05)

    def members(self) -> List[chaos.Member]:
        """Of the last epoch, those that live."""
        found = self.histories()
        return [member for member in found.members(found.last_epoch()) if os.path.exists(f"/proc/{member.pid}")]

    def strike(self) -> None:
        """Does one thing; somebody always stays."""
        act = self.random.choice((self.kill, self.kill, self.kill_two, self.stop, self.replace_coordinator, self.leave))
        act()

    def kill(self, count: int = 1) -> None:
        members = self.members()
        for member in self.random.sample(members, min(count, len(members) - 1)):
            self.acts.append(f"kill rank {member.rank} of {member.size} ({member.pid})")
            os.kill(member.pid, signal.SIGKILL)

    def kill_two(self) -> None:
        self.kill(2)

    def stop(self) -> None:
        members = self.members()
        if len(members) < 2:
            return
        member = self.random.choice(members)
        self.acts.append(f"stop rank {member.rank} of {member.size} ({member.pid})")
        os.kill(member.pid, signal.SIGSTOP)
        try:
            self.await_step(1)
        finally:
            os.kill(member.pid, signal.SIGCONT)

    def replace_coordinator(self) -> None:
        self.acts.append("kill the coordinator")
        self.coordinator.program.signal(signal.SIGKILL)
        self.coordinator.program.end()
        if self.random.random() < 0.5:
            self.kill()
        self.coordinator = self.serve(self.coordinator)
        self.acts.append("start it again")

    def leave(self) -> None:
        members = self.members()
        if self.leaves == 0 or len(members) < 2:
            return
        self.leaves -= 1
        member = self.random.choice(members)
        self.acts.append(f"SIGTERM to rank {member.rank} of {member.size} ({member.pid})")
        os.kill(member.pid, signal.SIGTERM)


def test_training_goes_on_and_its_history_is_whole(
    chaos_seed: int, start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    write_data(tmp_path)
    (tmp_path / "history").mkdir()
    coordinator = serve()
    bounds = ("-np", str(MOST), "--min-np", str(LEAST), "--max-np", str(MOST))
    worker = [sys.executable, str(PROGRAM), str(tmp_path)]
    run = start(str(harness.CLI), "run", *bounds, *coordinator.options(), *worker)
    play = Play(chaos_seed, tmp_path, run, coordinator, serve)
    deadline = time.monotonic() + START_SECONDS
    while play.histories().steps(1) < 5 and time.monotonic() < deadline and run.is_running():
        run.await_output(0.05)
    try:
        for _ in range(play.random.randint(2, 5)):
            play.strike()
            # Sometimes at once, while an epoch forms.
            if play.random.random() < 0.8:
                play.await_step(play.random.randint(1, 20))
        play.await_step(5)
        (tmp_path / "stop").touch()
        run.require_end(0)
        chaos.check(play.histories(), SAMPLES, LEAST, MOST)
    except AssertionError as error:
        raise AssertionError(f"seed {chaos_seed} (make chaos SEED={chaos_seed}): {play.acts}\n{error}") from None
