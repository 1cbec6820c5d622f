"""Sections of the program, by which the diagnosis says where a slow rank loses its time."""

import contextlib
from types import TracebackType
from typing import ContextManager, Iterable, Iterator, List, Optional, Type, TypeVar

from ._library import failure, lib

Item = TypeVar("Item")


class section(contextlib.ContextDecorator):  # pylint: disable=invalid-name; it is used as a function
    """A section of the program: `with hvd.section("data"): ...`, also as a decorator (docs/diagnosis.md).

    Time counts for the section that began last in this process, on any thread, less what the program waits in
    collectives; a section within another one interrupts it. Names beyond the 15th of a process count together. Costs
    about a microsecond; nothing counts where the process is no worker. ValueError: a name is 1 to 64 bytes of UTF-8
    without control characters.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or "\0" in name:
            raise ValueError(f"a section's name is text without zero bytes, not {name!r}")
        self._name = name.encode(errors="surrogateescape")
        # Of those that are open: a decorated function may call itself.
        self._numbers: List[int] = []

    def __enter__(self) -> "section":
        number = lib.farandole_section_begin(self._name)
        if number < 0:
            raise failure(-number)
        self._numbers.append(number)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        trace: Optional[TracebackType] = None,
    ) -> None:
        lib.farandole_section_end(self._numbers.pop())

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each of which is fetched within the section: `for batch in hvd.section("data").each(loader):`."""
        with self:
            iterator = iter(items)
        while True:
            with self:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


def marked(name: str, is_eager: bool) -> ContextManager[object]:
    """The section of an adapter. Nothing where code is being compiled: it runs once, and no step is in it."""
    return section(name) if is_eager else contextlib.nullcontext()
