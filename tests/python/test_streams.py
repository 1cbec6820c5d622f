"""The order in which the library learns of a GPU's streams, when tensors come from one and another waits for them."""

from typing import Any, Callable, List, Tuple

import pytest
from farandole import _handles


class Library:
    """Notes the calls; submissions are 7, 8, ..., and complete when they are waited for."""

    def __init__(self) -> None:
        self.calls: List[Tuple[Any, ...]] = []
        self.meanwhile: List[Callable[[], Any]] = []  # what signals' handlers do in the next waits, one in each
        self.submissions = 6

    def farandole_use_stream(self, gpu: int, stream: int) -> int:
        self.calls.append(("use", gpu, stream))
        return 0

    def farandole_wait(self, handle: int, _ms: int) -> int:
        self.calls.append(("wait", handle))
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return 0

    def farandole_finish(self, handle: int, _ms: int) -> int:
        self.calls.append(("finish", handle))
        return 0

    def farandole_release(self, handle: int) -> None:
        self.calls.append(("release", handle))

    def submit(self, name: str, _cell: Any = None) -> int:
        self.submissions += 1
        self.calls.append(("submit", name))
        return self.submissions


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """In the place of the library."""
    noted = Library()
    monkeypatch.setattr(_handles, "lib", noted)
    return noted


def test_every_stream_that_gives_tensors_waits_for_them(library: Library) -> None:
    """The one that waits first is that of the others, whose memory goes back to them."""
    present = [11]
    place = (0, lambda: present[0])
    streams = _handles.Streams()
    first = streams.submit(place, library.submit, "first")
    present[0] = 22
    second = streams.submit(place, library.submit, "second")
    submitted = [("use", 0, 11), ("submit", "first"), ("use", -1, 0), ("use", 0, 22), ("submit", "second")]
    assert library.calls == [*submitted, ("use", -1, 0)]
    library.calls.clear()
    assert streams.are_used
    with streams.waiting():
        for _ in streams.others():
            assert [_handles.wait(handle) for handle in (first, second)] == [0, 0]
        _handles.finish(first, None)
    others = [("use", 0, 11), ("wait", 7), ("wait", 8), ("use", 0, 22)]
    assert library.calls == [("use", 0, 22), *others, ("finish", 7), ("use", -1, 0)]
    streams.clear()
    assert not streams.are_used
    with streams.waiting():
        assert not list(streams.others())


def test_a_handle_waits_for_its_own(library: Library) -> None:
    """Of several submissions from one stream, in another."""
    present = [11]
    handle = _handles.Handle(None, lambda ids: list(ids))
    for name in ("first", "second"):
        handle.submit((0, lambda: present[0]), library.submit, name)
    library.calls.clear()
    present[0] = 22
    assert handle.synchronize() == [7, 8]
    waits = [("wait", 7), ("wait", 8)]
    back = [("use", 0, 11), *waits, ("use", 0, 22)]
    assert library.calls == [("use", 0, 22), *waits, *back, ("release", 7), ("release", 8), ("use", -1, 0)]


def test_tensors_of_the_host_have_none(library: Library) -> None:
    """The library is not asked about streams."""
    streams = _handles.Streams()
    with streams.waiting():
        assert not list(streams.others())
    handle = _handles.Handle(None, lambda ids: list(ids))
    handle.submit(None, library.submit, "host")
    handle.synchronize()
    assert library.calls == [("submit", "host"), ("wait", 7), ("release", 7)]


def waits_for(library: Library, stream: int, name: str) -> Tuple[_handles.Handle, List[Tuple[Any, ...]]]:
    """A handle of a submission from a stream, and the calls of its wait."""
    handle = _handles.Handle(None, lambda ids: list(ids))
    number = handle.submit((0, lambda: stream), library.submit, name)
    return handle, [("use", 0, stream), ("wait", number), ("release", number)]


def test_tensors_of_the_host_have_none_in_a_handler_within_a_wait(library: Library) -> None:
    outer, calls = waits_for(library, 11, "outer")
    inner = _handles.Handle(None, lambda ids: list(ids))
    library.meanwhile = [lambda: inner.submit(None, library.submit, "host")]
    library.calls.clear()
    outer.synchronize()
    inside = [("use", -1, 0), ("submit", "host"), ("use", 0, 11)]
    assert library.calls == [*calls[:2], *inside, calls[2], ("use", -1, 0)]
    assert not _handles.told_streams
    inner.synchronize()


def test_a_handler_within_a_wait_leaves_the_stream_as_it_was(library: Library) -> None:
    outer, calls = waits_for(library, 11, "outer")
    inner, inner_calls = waits_for(library, 22, "inner")
    library.meanwhile = [inner.synchronize]
    library.calls.clear()
    outer.synchronize()
    assert library.calls == [*calls[:2], *inner_calls, ("use", 0, 11), calls[2], ("use", -1, 0)]
    assert not _handles.told_streams


def test_an_interrupted_wait_leaves_the_thread_without_a_stream(library: Library) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    outer, calls = waits_for(library, 11, "outer")
    library.meanwhile = [interrupt]
    library.calls.clear()
    with pytest.raises(KeyboardInterrupt):
        outer.synchronize()
    assert library.calls == [*calls[:2], ("use", -1, 0)] and not _handles.told_streams
    outer.synchronize()
