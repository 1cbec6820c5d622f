"""The price of a job's tensors. The numbers of fields are those of proto/farandole/v1/monitor.proto."""

import dataclasses
import datetime
from typing import List, Optional

from . import _wire
from ._findings import RankFindings, _operation


@dataclasses.dataclass(frozen=True)
class LastArrival:
    """A rank that others have waited for."""

    rank: int = _wire.whole(1)
    times: int = _wire.whole(2)
    """How many collectives waited for it last."""


@dataclasses.dataclass(frozen=True)
class CollectiveCost:
    """The price of one name's collectives since the epoch began, by the clock of each rank for itself: a collective waits
    from a rank's submission until all ranks have submitted it, then its data moves. Times are in seconds."""

    name: str = _wire.text(1)
    group: int = _wire.whole(2)
    """The number of its process set; 0: all ranks."""
    operation: str = _wire.choice(3, _operation, "allreduce")
    is_on_gpu: bool = _wire.flag(4)
    """Only the enqueueing is timed, and no bandwidth is known."""
    count: int = _wire.whole(5)
    """Of the rank that has most."""
    size_bytes: int = _wire.whole(6)
    """Of one collective, by the convention of nccl-tests: of an allgather and a gather the whole result, of a scatter the
    root's input, of others a rank's input."""
    waited: float = _wire.seconds_of_micros(7)
    """Of all ranks that have answered, together; so far, where it is not over."""
    moving: float = _wire.seconds_of_micros(8)
    mean_wait: float = _wire.real_micros(9)
    """Of a rank and a collective."""
    mean_moving: float = _wire.real_micros(10)
    longest_wait: float = _wire.seconds_of_micros(11)
    """Among the latest collectives."""
    longest_wait_rank: int = _wire.whole(12)
    wait_percent: float = _wire.real(13)
    """Part of what the ranks have waited for all names, 0 to 100."""
    algorithm_bytes_per_second: float = _wire.real(14)
    """0: not known, as for small ones, whose data travels with the ranks' readiness."""
    bus_bytes_per_second: float = _wire.real(15)
    compared: int = _wire.whole(16)
    """Of the latest collectives, those whose records of all ranks were compared."""
    last: List[LastArrival] = _wire.messages(17, LastArrival)
    """Of those: the ranks that came last by at least 10 us, the most frequent first, at most 4."""
    least_wait_rank: int = _wire.whole(18)
    """The rank that has waited least since the epoch began. It came last, by and large, where `least_wait` is far below
    `mean_wait`."""
    least_wait: float = _wire.real_micros(19)


@dataclasses.dataclass(frozen=True)
class Collectives:
    """The price of an epoch's tensors."""

    epoch: int = _wire.whole(1)
    size: int = _wire.whole(2)
    asked: Optional[datetime.datetime] = _wire.moment(3)
    """When the ranks were asked; None: they were not, and their launchers have read their records when they ended."""
    is_over: bool = _wire.flag(4)
    """The epoch is."""
    answered: int = _wire.whole(5)
    """How many ranks have told something; of a large epoch at most 128 are asked."""
    found: int = _wire.whole(6)
    """Names."""
    left_out: int = _wire.whole(7)
    """Names that ranks left out, which have more than 512."""
    waited: float = _wire.seconds_of_micros(8)
    """Seconds, of all ranks and names."""
    moving: float = _wire.seconds_of_micros(9)
    costs: List[CollectiveCost] = _wire.messages(10, CollectiveCost)
    """Those that took the most time first, at most 64."""
    silent: List[RankFindings] = _wire.messages(11, RankFindings)
    """Ranks that did not answer, and why."""
