"""The sections of fit() that a callback marks (docs/diagnosis.md)."""

from typing import List

from .._sections import section


class FitSections:
    """Marks one section at a time of a fit(). One that fit() has not ended, as it raised, ends with the next fit()."""

    def __init__(self) -> None:
        self._open: List[section] = []

    def begin(self, name: str) -> None:
        """Ends the section that is open, and begins this one."""
        self.end()
        marked = section(name)
        marked.__enter__()
        self._open.append(marked)

    def end(self) -> None:
        """Ends the section that is open, if one is."""
        if self._open:
            self._open.pop().__exit__()
