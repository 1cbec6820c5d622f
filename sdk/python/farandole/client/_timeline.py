"""Recordings of the workers of a job. The numbers of fields are those of proto/farandole/v1/timeline.proto."""

import dataclasses
import datetime
import re
import zlib
from typing import Dict, Iterator, List, Optional, Set

from . import _wire

# timeline.proto.
MOST_LINES_BYTES = 8 << 20
# Of two quartz clocks, some times as much as they usually have.
MOST_DRIFT_PER_MILLION = 100

_TIME = re.compile(r'"ts":(\d+)(?:\.(\d+))?')


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some events of a rank, as it has sent them."""

    lines_zlib: bytes = _wire.raw(3)
    lines_bytes: int = _wire.whole(4)
    events: int = _wire.whole(5)
    sent_ns: int = _wire.whole(7)
    """By the host's clock, as the times of the events."""
    ahead_ns: int = _wire.zigzag(8)
    """By how much the coordinator's clock is ahead of that one, and by how much that may be wrong; error 0: nothing is
    known yet."""
    error_ns: int = _wire.whole(9)


@dataclasses.dataclass(frozen=True)
class TimelinePart:
    """Some events of a rank."""

    number: int = _wire.whole(1)
    """From 1, ascending."""
    rank: int = _wire.whole(2)
    host_id: str = _wire.text(3)
    hostname: str = _wire.text(4)
    chunk: Chunk = _wire.message(5, Chunk, Chunk())

    @property
    def events(self) -> int:
        """How many there are."""
        return self.chunk.events

    def lines(self) -> List[str]:
        """The events, each as JSON, with the times of the host's clock. ValueError: they cannot be unpacked."""
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(self.chunk.lines_zlib, min(self.chunk.lines_bytes, MOST_LINES_BYTES) + 1)
        except zlib.error:
            text = b""
        if len(text) != self.chunk.lines_bytes:
            raise ValueError(f"part {self.number} of the timeline, of rank {self.rank}, cannot be unpacked")
        return text.decode(errors="replace").split(",\n") if text else []


class _Clock:
    """A host's clock against the coordinator's, by the best exchange that any of its ranks had."""

    def __init__(self, chunks: List[Chunk]) -> None:
        known = [chunk for chunk in chunks if chunk.error_ns]
        self.is_known = bool(known)
        best = min(known or chunks, key=lambda chunk: chunk.error_ns)
        self.ahead_ns = best.ahead_ns
        at = best.sent_ns if known else 0
        age = max(abs(at - chunk.sent_ns) for chunk in chunks)
        self.error_ns = best.error_ns + age // 1_000_000 * MOST_DRIFT_PER_MILLION


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The recording of a job so far."""

    recording: int = _wire.whole(1)
    """Counts the job's recordings, from 1."""
    is_on: bool = _wire.flag(2)
    """It goes on."""
    started: Optional[datetime.datetime] = _wire.moment(3)
    parts: List[TimelinePart] = _wire.messages(4, TimelinePart)
    next: int = _wire.whole(5)
    """Of an answer; 0 here."""
    dropped: int = _wire.whole(6)
    """Events that came faster than the ranks could send them."""
    forgotten: int = _wire.whole(7)
    """Events that the coordinator gave up for later ones, since it had no room."""

    @property
    def error_between_hosts(self) -> float:
        """The most seconds by which times of different hosts are wrong against each other; 0: there is one host."""
        return _error_between(self._clocks()) / 1e9

    @property
    def left_out(self) -> int:
        """Events that the trace leaves out, since their hosts' clocks were not compared with the coordinator's yet."""
        clocks = self._clocks()
        return sum(part.events for part in self.parts if not clocks[part.host_id].is_known)

    def trace(self) -> str:
        """All of it as a file for Perfetto and chrome://tracing (JSON), in the coordinator's time, as `farandole timeline
        get` writes it. ValueError: a part cannot be unpacked."""
        clocks = self._clocks()
        head = (
            '{"displayTimeUnit":"ms","otherData":{"clock":"the coordinator\'s, Unix time",'
            f'"error_between_hosts_us":{_error_between(clocks) // 1000},"lost_events":{self.dropped + self.forgotten}'
            '},"traceEvents":['
        )
        events = ",\n".join(self._events(clocks))
        return f"{head}\n{events}\n]}}\n" if events else f"{head}\n]}}\n"

    def _clocks(self) -> Dict[str, _Clock]:
        chunks: Dict[str, List[Chunk]] = {}
        for part in self.parts:
            chunks.setdefault(part.host_id, []).append(part.chunk)
        return {host: _Clock(of_host) for host, of_host in chunks.items()}

    def _events(self, clocks: Dict[str, _Clock]) -> Iterator[str]:
        # Each part has the names of its rows and process.
        named: Set[str] = set()
        for part in self.parts:
            clock = clocks[part.host_id]
            for line in part.lines() if clock.is_known else ():
                if line.startswith('{"ph":"M"'):
                    # It says besides when it was written.
                    what = line.partition(',"start_time_since_epoch')[0]
                    if what in named:
                        continue
                    named.add(what)
                yield _moved(line, clock.ahead_ns)


def _error_between(clocks: Dict[str, _Clock]) -> int:
    """Nanoseconds, of the two hosts whose clocks are known worst."""
    errors = sorted((clock.error_ns for clock in clocks.values()), reverse=True)
    return sum(errors[:2]) if len(errors) > 1 else 0


def _moved(line: str, ahead_ns: int) -> str:
    """An event with its time in microseconds, "ts":12.345, moved."""

    def move(found: "re.Match[str]") -> str:
        micros, nanos = divmod(int(found[1]) * 1000 + int(found[2] or 0) + ahead_ns, 1000)
        return f'"ts":{micros}.{nanos:03d}'

    return _TIME.sub(move, line, count=1)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """An answer."""

    sentence: str = _wire.text(1)
