"""A running program that a driver measures by the lines that it writes."""

import contextlib
import pathlib
import queue
import subprocess
import threading
import time
import uuid
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

import groups
from groups import BenchError
from processes import die_with_parent, kill_marked

MARK = "FARANDOLE_BENCH_MARK"
# torchrun gives its workers 30 s between SIGTERM and SIGKILL.
END_SECONDS = 40.0
KILL_SECONDS = 10.0


class Event(NamedTuple):
    """A line `NAME VALUE NUMBER`."""

    name: str
    value: float
    number: int


class Wanted(NamedTuple):
    """So many events of a name, with that number where one is given."""

    name: str
    count: int
    number: Optional[int] = None

    def takes(self, event: Event) -> bool:
        """Whether it is one of them."""
        return event.name == self.name and self.number in (None, event.number)


class Contender:
    """A program whose output is events; other lines are kept for complaints. It gets SIGTERM when its driver dies."""

    def __init__(self, command: Sequence[str], environment: Dict[str, str], directory: pathlib.Path) -> None:
        self._events: "queue.Queue[Optional[Event]]" = queue.Queue()
        self._other_output: List[str] = []
        # Descendants have it in their environment, in every session and under every parent.
        self._mark = uuid.uuid4().hex
        # pylint: disable-next=subprocess-popen-preexec-fn
        self.process = subprocess.Popen(
            command,
            env=groups.environment({**environment, MARK: self._mark}),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            process_group=0,
            preexec_fn=die_with_parent,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            words = line.split()
            try:
                self._events.put(Event(words[0], float(words[1]), int(words[2])))
            except (IndexError, ValueError):
                self._other_output.append(line)
        self._events.put(None)

    def drop_events(self) -> None:
        """Forgets the lines so far."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._events.get_nowait()

    def events(self, seconds: float) -> Iterator[Event]:
        """Its events from now on. Raises BenchError when it has ended or the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                event = self._events.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise BenchError(f"it took longer than {seconds:.0f} s{self._tail()}") from None
            if event is None:
                raise BenchError(f"it ended with {self.process.wait()}{self._tail()}")
            yield event

    def wait(self, *wanted: Wanted, seconds: float) -> List[List[Event]]:
        """The next events of each kind, which may come in any order; drops the others."""
        found: List[List[Event]] = [[] for _ in wanted]
        for event in self.events(seconds):
            for kind, events in zip(wanted, found):
                if kind.takes(event):
                    events.append(event)
            if all(len(events) >= kind.count for kind, events in zip(wanted, found)):
                break
        return found

    def _tail(self) -> str:
        lines = self._other_output[-20:]
        return "".join(["; its last output:\n", *lines]) if lines else ""

    def end(self) -> None:
        """Has it end, and kills what it leaves."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        kill_marked(MARK, self._mark, KILL_SECONDS)
        self.process.wait()
        self.process.stdin.close()
