"""Elastic training beside kills, stops, drains, coordinators that come and go, and hosts that are cut from each other, all
from a seed, and what its history must say afterwards. `--seeds A-B` plays these seeds; a failure prints its own.
"""

import gzip
import os
import pathlib
import random
import signal
import sys
import time
from typing import Callable, List, Optional, Sequence, Set

import chaos
import harness
import numpy as np
from coordinators import Coordinator
from hosts import Namespaces
from programs_run import Program

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "chaotic.py"
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
SAMPLES = 600
LEAST, MOST = 1, 4
# A stopped worker goes on after a while, and is to find out that it was lost.
BOUNDS = ("-np", str(MOST), "--min-np", str(LEAST), "--max-np", str(MOST), "--lost-timeout", "60")
MOST_LEAVE = 2
# From an act to the next step, at most: a silent worker takes 2.5 s, a replacement its start, on a busy machine more.
ON_SECONDS = 60


def prepare(directory: pathlib.Path) -> None:
    """Writes some of Fashion-MNIST, and makes a place for the history."""
    (directory / "history").mkdir()
    with gzip.open(IMAGES / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + SAMPLES * 784)[16:], np.uint8).reshape(SAMPLES, 784)
    with gzip.open(IMAGES / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + SAMPLES)[8:], np.uint8)
    np.save(directory / "images.npy", (images / np.float32(255)).astype(np.float32))
    np.save(directory / "labels.npy", labels.astype(np.int64))


class Play:
    """One job, and the misfortunes of it."""

    def __init__(
        self,
        seed: int,
        directory: pathlib.Path,
        run: Program,
        coordinator: Optional[Coordinator],
        serve: Optional[Callable[..., Coordinator]],
    ) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.run = run
        self.coordinator = coordinator
        self.serve = serve
        self.acts: List[str] = []
        # Workers that leave in order; the launcher does not replace them.
        self.leaving: Set[int] = set()
        self.killed: Set[int] = set()

    def histories(self) -> chaos.Histories:
        return chaos.Histories(self.directory / "history")

    def wait(self, until: Callable[[chaos.Histories], bool], what: str) -> None:
        """Waits until the histories show it."""
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
        """Waits until the killed worker has been replaced."""
        self.acts.append("await replacements")
        size = MOST - len(self.leaving)
        self.wait(lambda found: len(found.members(found.last_epoch())) >= size, f"fewer than {size} workers")
        self.await_steps(1)

    def members(self) -> List[chaos.Member]:
        """Of the last epoch, those that live and stay."""
        found = self.histories()
        gone = self.leaving | self.killed
        return [member for member in found.members(found.last_epoch()) if member.pid not in gone]

    def acts_to_choose_from(self) -> Sequence[Callable[[], None]]:
        return (self.kill, self.kill, self.kill_two, self.stop, self.replace_coordinator, self.leave)

    def strike(self) -> None:
        """Does one thing; at least one worker always stays."""
        self.random.choice(self.acts_to_choose_from())()

    def play(self) -> None:
        """All of it, and then the check of the history."""
        self.await_steps(5)
        for _ in range(self.random.randint(2, 5)):
            self.strike()
            # Sometimes at once, while an epoch forms.
            chance = self.random.random()
            if chance < 0.4:
                self.await_steps(self.random.randint(1, 20))
            elif chance < 0.8:
                self.await_replacements()
        self.await_steps(5)
        (self.directory / "stop").touch()
        self.run.require_end(0)
        chaos.check(self.histories(), SAMPLES, LEAST, MOST)

    def kill(self, count: int = 1) -> None:
        members = self.members()
        # None where all of the last epoch are gone and the next one forms.
        for member in self.random.sample(members, max(0, min(count, len(members) - 1))):
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


class PlayOverHosts(Play):
    """A play with workers on several hosts, and with a coordinator in its launcher."""

    def __init__(self, seed: int, directory: pathlib.Path, run: Program, hosts: Namespaces) -> None:
        super().__init__(seed, directory, run, None, None)
        self.hosts = hosts

    def acts_to_choose_from(self) -> Sequence[Callable[[], None]]:
        return (self.kill, self.stop, self.leave, self.cut, self.cut, self.cut)

    def cut(self) -> None:
        """Cuts a host from another one or from this machine, or from all, for longer or shorter than each limit."""
        victim = self.random.randrange(len(self.hosts.names))
        others = [index for index in range(len(self.hosts.names)) if index != victim]
        cuts = self.random.choice([[None], [self.random.choice(others)], others, [None, *others]])
        seconds = self.random.choice([0.5, 2, 4, 12])
        self.acts.append(f"cut host {victim} from {cuts} for {seconds} s (None: the coordinator)")
        for other in cuts:
            self.hosts.cut(victim, other)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.run.is_running():
            self.run.await_output(left)
        for other in cuts:
            self.hosts.heal(victim, other)

    def await_replacements(self) -> None:
        """A host that was lost is tried again later."""
        self.await_steps(20)


def _play(play: Play, seed: int) -> None:
    try:
        play.play()
    except AssertionError as error:
        raise AssertionError(f"seed {seed} (make chaos SEED={seed}): {play.acts}\n{error}") from None


def test_training_goes_on_and_its_history_is_whole(
    chaos_seed: int, start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    prepare(tmp_path)
    coordinator = serve()
    worker = [sys.executable, str(PROGRAM), str(tmp_path)]
    run = start(str(harness.CLI), "run", *BOUNDS, *coordinator.options(), *worker)
    _play(Play(chaos_seed, tmp_path, run, coordinator, serve), chaos_seed)


def test_training_goes_on_beside_hosts_that_are_cut(
    cut_seed: int, start: Callable[..., Program], three_hosts: Namespaces, tmp_path: pathlib.Path
) -> None:
    prepare(tmp_path)
    worker = [sys.executable, str(PROGRAM), str(tmp_path)]
    run = start(str(harness.CLI), "run", *BOUNDS, *three_hosts.options(2, 2, 2), *worker)
    _play(PlayOverHosts(cut_seed, tmp_path, run, three_hosts), cut_seed)
