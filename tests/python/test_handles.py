"""Waiting for submissions, without a library: interruptions and other threads at the worst moments."""

from typing import Any, Callable, Dict, List, Sequence

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


def made(collect: Any) -> _handles.Handle:
    """A handle of one submission, 1, or of two, where they are collected."""
    if collect is None:
        return _handles.Handle.of_submitted([1], None, "output")
    handle = _handles.Handle(None, collect)
    for number in (1, 2):
        handle.submit(None, lambda _cell, number=number: number)
    return handle


COLLECTS: Dict[str, Any] = {"in place": None, "collected": lambda _ids: "output"}


@pytest.mark.parametrize("kind", COLLECTS)
def test_a_handle_that_another_thread_settles_meanwhile_gives_its_output(library: Library, kind: str) -> None:
    handle = made(COLLECTS[kind])
    others: List[Any] = []
    library.meanwhile = [lambda: others.append(handle.synchronize())]
    assert (handle.synchronize(), others) == ("output", ["output"])
    assert handle.synchronize() == "output"


@pytest.mark.parametrize("kind", COLLECTS)
def test_a_handle_that_another_thread_settles_meanwhile_can_be_polled(library: Library, kind: str) -> None:
    handle = made(COLLECTS[kind])
    library.meanwhile = [handle.synchronize]
    assert handle.poll()


def test_an_output_is_collected_once(library: Library) -> None:
    """Also where a signal's handler waits for the handle while it is collected."""

    def collect(ids: Sequence[int]) -> str:
        if not others:
            others.append("now")
            others.append(handle.synchronize())
        if library.released:
            raise InvalidRequest("there is no handle")
        return f"output of {ids}"

    others: List[str] = []
    handle = made(collect)
    assert handle.synchronize() == others[1] == "output of [1, 2]"
