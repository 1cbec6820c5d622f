"""Marks the section "backward" of a program (docs/diagnosis.md)."""

import torch

from .._library import lib


class BackwardMark:
    """The section of a backward pass, from its first gradient to its end. One thread at a time."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0
        """Of the section that is open; 0: none is."""

    def begin(self) -> None:
        """Within a hook of autograd, whose engine ends the section."""
        try:
            torch.autograd.Variable._execution_engine.queue_callback(self.end)
        except RuntimeError:  # something else has called the hook
            return
        # 64 open sections, or no worker: nothing counts, and the next hook tries again.
        self.number = max(0, lib.farandole_section_begin(b"backward"))

    def end(self) -> None:
        """Ends the section, if it is open: also after a backward pass that has failed."""
        if self.number:
            lib.farandole_section_end(self.number)
            self.number = 0
