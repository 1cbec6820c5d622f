"""Waiting for submissions, without a library: interruptions and other threads at the worst moments."""

from typing import Any, Callable, Dict, List

import pytest
from farandole import _handles
from farandole.exceptions import InvalidRequest


class Library:
    """Submissions that are complete, and calls during which something happens."""

    def __init__(self) -> None:
        self.meanwhile: List[Callable[[], Any]] = []  # in the next calls, one in each
        self.released: List[int] = []
        self.pending: List[int] = []

    def _happen(self) -> None:
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def farandole_poll(self, handle: int) -> int:
        self._happen()
        return -3 if handle in self.released else int(handle not in self.pending)

    def farandole_wait(self, handle: int, _ms: int) -> int:
        self._happen()
        return 3 if handle in self.released else 0

    def farandole_release(self, handle: int) -> None:
        self.released.append(handle)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """In the place of the library."""
    noted = Library()
    borrowed: Dict[int, List[Any]] = {}
    monkeypatch.setattr(_handles, "lib", noted)
    monkeypatch.setattr(_handles, "_borrowed", borrowed)
    monkeypatch.setattr(_handles, "failure", lambda code: InvalidRequest(f"code {code}"))
    return noted


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_sweep_loses_no_memory(library: Library) -> None:
    for handle in (1, 2, 3):
        _handles.keep(handle, object())
    library.pending = [3]
    library.meanwhile = [lambda: None, interrupt]
    with pytest.raises(KeyboardInterrupt):
        _handles.sweep()
    assert (library.released, _handles.borrowed_count()) == ([1], 2)
    _handles.sweep()
    assert (library.released, _handles.borrowed_count()) == ([1, 2], 1)
    library.pending = []
    _handles.sweep()
    assert (library.released, _handles.borrowed_count()) == ([1, 2, 3], 0)


def test_memory_that_is_kept_within_a_sweep_stays(library: Library) -> None:
    """By an object's __del__, or a signal's handler."""
    _handles.keep(1, object())
    library.pending = [1, 2]
    library.meanwhile = [lambda: (_handles.keep(2, object()), _handles.sweep())]
    _handles.sweep()
    assert _handles.borrowed_count() == 2
