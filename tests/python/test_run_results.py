"""The results of run() whose workers do not all return."""

import os
import pathlib
import signal
import sys
import threading
from typing import Any, List, Sequence

import farandole
import pytest
from farandole import runner
from farandole._run_exchange import Ended, Result


def returns(leaver: int, mark: str = "") -> str:
    """One rank exits: with a mark by os._exit(), when the other one has ended."""
    import farandole.numpy as hvd

    hvd.init()
    other = pathlib.Path(mark)
    if hvd.rank() != leaver:
        if mark:
            other.with_suffix(".new").write_text(str(os.getpid()), encoding="ascii")
            other.with_suffix(".new").rename(other)
        return f"of rank {hvd.rank()}"
    if not mark:
        sys.exit(0)
    while not other.exists() or os.path.exists(f"/proc/{other.read_text(encoding='ascii')}"):
        threading.Event().wait(0.01)
    os._exit(0)


@pytest.mark.parametrize(("leaver", "bounds"), [(0, {}), (1, {}), (1, {"min_np": 2})])
def test_a_rank_that_exits_with_0_has_none_in_its_place(leaver: int, bounds: Any) -> None:
    wanted: List[Any] = ["of rank 0", "of rank 1"]
    wanted[leaver] = None
    assert farandole.run(returns, (leaver,), np=2, **bounds) == wanted


def test_an_exit_of_a_worker_is_an_error_in_the_driver_and_not_its_exit() -> None:
    with pytest.raises(RuntimeError, match=r"rank \d of run\(\) has failed: SystemExit: 3") as raised:
        farandole.run(sys.exit, (3,), np=2)
    assert "Traceback" in str(raised.value.__cause__)


@pytest.mark.parametrize("bounds", [{}, {"min_np": 2}])
def test_a_rank_that_ends_without_a_word_is_named(bounds: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(RuntimeError, match=r"rank 0 .*without a result"):
        farandole.run(returns, (0, str(tmp_path / "mark")), np=2, **bounds)


def test_an_elastic_job_has_the_results_of_its_last_epoch() -> None:
    assert farandole.run(returns, (-1,), np=2, min_np=1) == ["of rank 0"]
    assert farandole.run(returns, (-1,), np=2, max_np=2) == ["of rank 0", "of rank 1"]


def goes_on_after_a_loss(mark: str, shuts_down: bool) -> str:
    import farandole.numpy as hvd

    hvd.init()
    state = hvd.elastic.ObjectState(step=0)

    @hvd.elastic.run
    def train(state: Any) -> str:
        while state.step < 20:
            if state.step == 10 and hvd.rank() == 1 and not os.path.exists(mark):
                pathlib.Path(mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            state.step += 1
            state.commit()
        return f"of rank {hvd.rank()} of {hvd.size()}"

    result = train(state)
    if shuts_down:
        hvd.shutdown()
    return result


@pytest.mark.parametrize("shuts_down", [False, True])
def test_results_are_by_rank_where_a_worker_was_replaced(shuts_down: bool, tmp_path: pathlib.Path) -> None:
    arguments = (str(tmp_path / "mark"), shuts_down)
    wanted = [f"of rank {rank} of 3" for rank in range(3)]
    assert farandole.run(goes_on_after_a_loss, arguments, np=3, min_np=3, max_np=3) == wanted


def alone_or_in_pairs(members: Sequence[Sequence[int]], shuts_down: bool) -> str:
    import farandole.numpy as hvd

    mine = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
    hvd.init(next(each for each in members if mine in each))
    result = f"{mine} as rank {hvd.rank()}"
    if shuts_down:
        hvd.shutdown()
    return result


@pytest.mark.parametrize("shuts_down", [False, True])
def test_workers_that_make_several_jobs_have_a_result_each(shuts_down: bool) -> None:
    wanted = ["0 as rank 0", "1 as rank 0", "2 as rank 1"]
    assert farandole.run(alone_or_in_pairs, ([[0], [1, 2]], shuts_down), np=3) == wanted


def test_of_two_that_have_ended_as_one_rank_the_later_one_counts() -> None:
    early, late = Result(0, "early"), Result(0, "late")
    outcomes = [early, Result(1, "other"), Ended(0), late, Ended(7)]
    assert runner._results(outcomes, ["-np", "2", "--min-np=2"], 2) == ["late", "other"]
