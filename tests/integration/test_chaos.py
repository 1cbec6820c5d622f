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
from typing import Callable, List, Set

import chaos
import harness
import numpy as np
from coordinators import Coordinator
from programs_run import Program

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "chaotic.py"
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
SAMPLES = 600
LEAST, MOST = 1, 4
MOST_LEAVE = 2
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

    def __init__(
        self, seed: int, directory: pathlib.Path, run: Program, coordinator: Coordinator, serve: Callable
    ) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.run = run
        self.coordinator = coordinator
        self.serve = serve
        self.acts: List[str] = []
        # Who leaves in order; they are not replaced.
        self.leaving: Set[int] = set()
        self.killed: Set[int] = set()

    def histories(self) -> chaos.Histories:
        return chaos.Histories(self.directory / "history")

    def wait(self, until: Callable[[chaos.Histories], bool], what: str) -> None:
        """Waits until the histories say so."""
        deadline = time.monotonic() + ON_SECONDS
        while not until(self.histories()):
            assert self.run.is_running(), f"the job has ended:\n{self.run.output[-6000:]}"
            assert time.monotonic() < deadline, f"{what} for {ON_SECONDS} s:\n{self.run.output[-6000:]}"
            self.run.await_output(0.05)

    def await_steps(self, more: int) -> None:
        """Waits until the last epoch has done `more` steps from now on, or another one has done as many."""
        before = self.histories()
        wanted = {before.last_epoch(): before.steps(before.last_epoch()) + more}
        self.wait(lambda found: found.steps(found.last_epoch()) >= wanted.get(found.last_epoch(), more), "no step")

    def await_replacements(self) -> None:
        """Waits until whoever was killed has been replaced."""
        self.acts.append("await replacements")
        size = MOST - len(self.leaving)
        self.wait(lambda found: len(found.members(found.last_epoch())) >= size, f"fewer than {size} workers")
        self.await_steps(1)

    def members(self) -> List[chaos.Member]:
        """Of the last epoch, those that live and stay."""
        found = self.histories()
        gone = self.leaving | self.killed
        return [member for member in found.members(found.last_epoch()) if member.pid not in gone]

    def strike(self) -> None:
        """Does one thing; somebody always stays."""
        act = self.random.choice((self.kill, self.kill, self.kill_two, self.stop, self.replace_coordinator, self.leave))
        act()

    def kill(self, count: int = 1) -> None:
        members = self.members()
        for member in self.random.sample(members, min(count, len(members) - 1)):
            self.acts.append(f"kill rank {member.rank} of {member.size} ({member.pid})")
            self.killed.add(member.pid)
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
            self.await_steps(1)
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
        if len(self.leaving) == MOST_LEAVE or len(members) < 2:
            return
        member = self.random.choice(members)
        self.leaving.add(member.pid)
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
    try:
        play.await_steps(5)
        for _ in range(play.random.randint(2, 5)):
            play.strike()
            # Sometimes at once, while an epoch forms.
            chance = play.random.random()
            if chance < 0.4:
                play.await_steps(play.random.randint(1, 20))
            elif chance < 0.8:
                play.await_replacements()
        play.await_steps(5)
        (tmp_path / "stop").touch()
        run.require_end(0)
        chaos.check(play.histories(), SAMPLES, LEAST, MOST)
    except AssertionError as error:
        raise AssertionError(f"seed {chaos_seed} (make chaos SEED={chaos_seed}): {play.acts}\n{error}") from None
