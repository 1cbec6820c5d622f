"""The results of run() whose workers do not all return."""

import os
import sys
from typing import Any, List

import farandole
import pytest


def returns(leaver: int, way: str) -> str:
    import farandole.numpy as hvd

    hvd.init()
    if hvd.rank() == leaver:
        if way == "os._exit":
            os._exit(0)
        sys.exit(0)
    return f"of rank {hvd.rank()}"


@pytest.mark.parametrize(("leaver", "bounds"), [(0, {}), (1, {}), (1, {"min_np": 2})])
def test_a_rank_that_exits_with_0_has_none_in_its_place(leaver: int, bounds: Any) -> None:
    wanted: List[Any] = ["of rank 0", "of rank 1"]
    wanted[leaver] = None
    assert farandole.run(returns, (leaver, "sys.exit"), np=2, **bounds) == wanted


@pytest.mark.parametrize("bounds", [{}, {"min_np": 2}])
def test_a_rank_that_ends_without_a_word_is_named(bounds: Any) -> None:
    with pytest.raises(RuntimeError, match=r"rank 0 .*without a result"):
        farandole.run(returns, (0, "os._exit"), np=2, **bounds)


def test_an_elastic_job_has_the_results_of_its_last_epoch() -> None:
    assert farandole.run(returns, (-1, ""), np=2, min_np=1) == ["of rank 0"]
    assert farandole.run(returns, (-1, ""), np=2, max_np=2) == ["of rank 0", "of rank 1"]
