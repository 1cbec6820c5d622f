"""Collectives of a signal handler while its process waits in another one: both end with their own results, and memory that
is still on its way stays alive. Rank 0 waits in a call; a timer's signal comes, and its handler calls the library. Rank 1
takes part in the handler's collective first.

    farandole run -np 2 python submit_within.py
"""

import signal
from typing import Any, Callable, Dict, List

import farandole.torch as hvd
import torch
from farandole import _handles
from farandole._library import lib

COUNT = 100_000


def tensor() -> torch.Tensor:
    return torch.full((COUNT,), hvd.rank() + 1.0)


# Each gives tensors that hold 3 everywhere, or ones and twos.
OUTER: Dict[str, Callable[[], Any]] = {
    "allreduce": lambda: hvd.allreduce(tensor(), op=hvd.Sum, name="outer"),
    "allreduce_": lambda: hvd.allreduce_(tensor(), op=hvd.Sum, name="outer"),
    "grouped": lambda: hvd.grouped_allreduce([tensor(), tensor()], op=hvd.Sum, name="outer"),
    "strided": lambda: hvd.allreduce(tensor().view(-1, 2).t(), op=hvd.Sum, name="outer"),
    "async": lambda: hvd.allreduce_async(tensor(), op=hvd.Sum, name="outer").synchronize(),
    "allgather": lambda: hvd.allgather(tensor(), name="outer"),
    "reducescatter": lambda: hvd.reducescatter(tensor(), op=hvd.Sum, name="outer"),
}
KEPT: List[Any] = []


def inner_now() -> None:
    assert hvd.allreduce(torch.full((7,), 5.0), op=hvd.Sum, name="inner").tolist() == [10.0] * 7


def inner_later() -> None:
    KEPT.append(hvd.allreduce_async(torch.full((7,), 5.0), op=hvd.Sum, name="inner"))


def inner_and_raise() -> None:
    inner_now()
    raise SystemExit(1)


INNER: Dict[str, Callable[[], None]] = {"now": inner_now, "later": inner_later, "raise": inner_and_raise}


def check_result(outer: str, result: Any) -> None:
    expected = [1.0, 2.0] if outer == "allgather" else [3.0]
    for each in result if isinstance(result, list) else [result]:
        assert each.unique().tolist() == expected, (outer, each)


def wait_and_be_interrupted(outer: str, inner: str, after: float) -> None:
    """Rank 0's part."""
    signal.signal(signal.SIGALRM, lambda _number, _frame: INNER[inner]())
    signal.setitimer(signal.ITIMER_REAL, after)
    has_raised = False
    try:
        check_result(outer, OUTER[outer]())
    except SystemExit:
        has_raised = True
    assert has_raised == (inner == "raise")
    # Looked at when nothing refers to the call's frames any more.
    on_its_way = [lib.farandole_poll(handle) == 0 for handle in _handles._borrowed]
    assert on_its_way == [True] * has_raised, on_its_way
    for handle in KEPT:
        assert handle.synchronize().tolist() == [10.0] * 7
    KEPT.clear()


hvd.init()
for after in (0.03, 0.15):  # in the call that submits, and in a later wait
    for inner in INNER:
        for outer in OUTER:
            if hvd.rank() == 0:
                wait_and_be_interrupted(outer, inner, after)
                hvd.barrier()
            else:
                inner_now()
                if inner == "raise":
                    hvd.barrier()  # the outer one goes on until it has been looked for
                check_result(outer, OUTER[outer]())
                if inner != "raise":
                    hvd.barrier()
            hvd.barrier()
            _handles.sweep()
            assert not _handles.borrowed_count()
            print(f"{outer} with {inner} after {after}", flush=True)
hvd.shutdown()
