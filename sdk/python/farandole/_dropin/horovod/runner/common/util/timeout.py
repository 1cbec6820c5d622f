"""A time limit, by Horovod's name."""

import time
from typing import Optional

TimeoutException = TimeoutError
"""The time is over."""


class Timeout:
    """Runs from when it is made."""

    def __init__(self, timeout: float, message: str) -> None:
        """`message` may have {timeout}, for the seconds, and is the exception's text."""
        self._timeout, self._message = timeout, message
        self._end = time.monotonic() + timeout

    def remaining(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def timed_out(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._end

    def check_time_out_for(self, activity: Optional[str]) -> None:
        """TimeoutException: the time is over."""
        if self.timed_out():
            raise TimeoutException(self._message.format(activity=activity, timeout=self._timeout))
