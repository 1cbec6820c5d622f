"""Answers of the ranks of a job about what they do, or did last. The numbers of fields are those of proto/farandole/v1:
monitor.proto and flight.proto."""

import dataclasses
import datetime
import enum
from typing import List, Optional

from .._operations import OPERATIONS
from . import _wire

_DTYPES = (
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
    "uint16",
    "float8_e4m3fn",
    "float8_e5m2",
)


def _operation(number: int) -> str:
    return OPERATIONS[number] if number < len(OPERATIONS) else "unknown"


def _dtype(number: int) -> str:
    return _DTYPES[number] if number < len(_DTYPES) else "unknown"


class Progress(enum.Enum):
    """How far a submission is."""

    SUBMITTED = "submitted"
    """It waits for the other ranks."""
    STARTED = "started"
    """All ranks have submitted it; its data moves."""
    FINISHED = "finished"
    FAILED = "failed"
    """It was refused, since ranks disagree."""
    ENDED = "ended"
    """The epoch ended before it was finished."""
    UNKNOWN = "unknown"
    """A state that this version does not know."""


_PROGRESS = (Progress.SUBMITTED, Progress.STARTED, Progress.FINISHED, Progress.FAILED, Progress.ENDED)


def _progress(number: int) -> Progress:
    return _PROGRESS[number - 1] if 1 <= number <= len(_PROGRESS) else Progress.UNKNOWN


@dataclasses.dataclass(frozen=True)
class Wait:
    """A collective that some ranks have submitted and others have not."""

    name: str = _wire.text(1)
    operation: str = _wire.choice(2, _operation, OPERATIONS[0])
    """ "allreduce" and so on."""
    group: int = _wire.whole(3)
    """The number of its process set; 0: all ranks."""
    ordinal: int = _wire.whole(4)
    """The how manieth of this name in this epoch."""
    waiting: List[int] = _wire.wholes(5)
    """Ranks."""
    missing: List[int] = _wire.wholes(6)
    """Ranks. None: its data moves, or their last steps were not read."""
    waited: float = _wire.seconds_of_micros(7)
    """Seconds, of the rank that has waited longest."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A call on a thread's stack."""

    function: str = _wire.text(1)
    file: str = _wire.text(2)
    line: int = _wire.whole(3)
    """0: not known."""
    module: str = _wire.text(4)
    """Of compiled code: the name of the program or library."""


@dataclasses.dataclass(frozen=True)
class StackGroup:
    """Ranks whose main threads have the same stack."""

    ranks: List[int] = _wire.wholes(1)
    frames: List[Frame] = _wire.messages(2, Frame)
    """The innermost first."""
    is_dominant: bool = _wire.flag(3)
    """It has most ranks of all."""
    native_frames: List[Frame] = _wire.messages(4, Frame)
    """Of compiled code: the calls of the innermost of `frames`, or all of the stack."""


@dataclasses.dataclass(frozen=True)
class Submission:
    """A collective that a rank has submitted."""

    name_index: int = _wire.whole(1)
    """Into Flight.names."""
    ordinal: int = _wire.whole(2)
    """The how manieth of its name in this epoch: equal on all ranks for those that belong together."""
    progress: Progress = _wire.choice(3, _progress, Progress.UNKNOWN)
    operation: str = _wire.choice(4, _operation, OPERATIONS[0])
    dtype: str = _wire.choice(5, _dtype, _DTYPES[0])
    size_bytes: int = _wire.whole(6)
    group: int = _wire.whole(7)
    batch: int = _wire.whole(9)
    """Equal on all ranks; 0: none, as for small collectives that all ranks computed at once."""
    is_on_gpu: bool = _wire.flag(10)
    age: float = _wire.seconds_of_micros(11)
    """Seconds from its submission until this was read."""
    started_after: float = _wire.seconds_of_micros(12)
    ended_after: float = _wire.seconds_of_micros(13)


@dataclasses.dataclass(frozen=True)
class Flight:
    """A rank's flight recorder: its latest submissions."""

    epoch: int = _wire.whole(1)
    rank: Optional[int] = _wire.optional_whole(2)
    """None: no epoch has begun."""
    size: int = _wire.whole(3)
    pid: int = _wire.whole(4)
    unrecorded: int = _wire.whole(5)
    """Submissions for which there was no room."""
    names: List[str] = _wire.texts(6)
    submissions: List[Submission] = _wire.messages(7, Submission)
    """The oldest first."""

    def name_of(self, submission: Submission) -> str:
        """Its name; the middle of a long one is left out."""
        return self.names[submission.name_index] if submission.name_index < len(self.names) else ""


@dataclasses.dataclass(frozen=True)
class Thread:
    """A thread of a worker's program."""

    name: str = _wire.text(1)
    """The main thread of Python is "MainThread"; "": not known."""
    tid: int = _wire.whole(2)
    frames: List[Frame] = _wire.messages(3, Frame)
    """The innermost first."""
    native_frames: List[Frame] = _wire.messages(4, Frame)
    """Of compiled code: the calls of the innermost of `frames`, or all of the stack."""
    alike: int = _wire.whole(5)
    """So many threads more have the same native frames, and are left out."""
    why_no_native: str = _wire.text(6)
    """Why it has no native frames; "" if it has, or if none of the process were read."""


@dataclasses.dataclass(frozen=True)
class KernelThread:
    """A thread as the kernel knows it."""

    tid: int = _wire.whole(1)
    name: str = _wire.text(2)
    state: str = _wire.text(3)
    """ "running", "sleeping", "in the kernel" or "stopped"."""
    call: str = _wire.text(4)
    """The system call that it is in; "": none, or not known."""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A worker's process about itself."""

    epoch: int = _wire.whole(1)
    flight: Optional[Flight] = _wire.message(3, Flight)
    threads: List[Thread] = _wire.messages(4, Thread)
    about_stacks: str = _wire.text(5)
    """One sentence: how the stacks were read, or why there are none."""
    kernel_threads: List[KernelThread] = _wire.messages(6, KernelThread)
    settings: List[str] = _wire.texts(7)
    """NAME=value of the library's settings that have no secrets, and versions of programs."""
    about_native_stacks: str = _wire.text(8)
    """As about_stacks, of the native frames."""


@dataclasses.dataclass(frozen=True)
class RankFindings:
    """The answer of one rank."""

    rank: int = _wire.whole(1)
    evidence: Optional[Evidence] = _wire.message(2, Evidence)
    """None: none came."""
    silence: str = _wire.text(3)
    """Without evidence: why."""


@dataclasses.dataclass(frozen=True)
class Findings:
    """The answers of the ranks of a job about what they do, or did last."""

    sentence: str = _wire.text(1)
    """Which collective is missing on whom; "": nobody waits for anybody."""
    waits: List[Wait] = _wire.messages(2, Wait)
    """The longest first; at most 16."""
    stacks: List[StackGroup] = _wire.messages(3, StackGroup)
    """The greatest first."""
    ranks: List[RankFindings] = _wire.messages(4, RankFindings)
    """Ascending; of a large job those that others wait for, and 64 others at most."""
    epoch: int = _wire.whole(5)
    size: int = _wire.whole(6)
    stalled: Optional[datetime.datetime] = _wire.moment(7)
    """When the job stalled and the coordinator asked by itself; None: it was asked to."""
