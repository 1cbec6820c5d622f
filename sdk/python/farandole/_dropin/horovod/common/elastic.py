"""farandole.elastic by Horovod's name, and the names that programs with an elastic loop of their own use."""

import functools
import threading
from typing import Any, Callable, Set

from farandole.elastic import HostUpdateResult, ObjectState, State  # noqa: F401
from farandole.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401


class Notifications:
    """Tells states of changes that the program itself has learned of. Those of the coordinator they hear by
    themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: Set[State] = set()

    def init(self, *arguments: Any, **options: Any) -> None:
        """Nothing: there is no service to start."""

    def register_listener(self, listener: State) -> None:
        """Has it told from now on."""
        with self._lock:
            self._listeners.add(listener)

    def remove_listener(self, listener: State) -> None:
        """The opposite."""
        with self._lock:
            self._listeners.discard(listener)

    def handle_hosts_updated(self, timestamp: int, update_res: int) -> None:
        """Calls on_hosts_updated of each."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = Notifications()


def run_fn(func: Callable[..., Any], reset: Callable[[], Any]) -> Callable[..., Any]:
    """func(state, ...) in a loop that calls `reset` between one attempt and the next, as Horovod's. (What elastic.run does
    besides, as to leave in order when the job has no place for this process, is left to `reset`.)"""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        notification_manager.init()
        notification_manager.register_listener(state)
        skip_sync = False
        try:
            while True:
                try:
                    if not skip_sync:
                        state.sync()
                    return func(state, *args, **kwargs)
                except HorovodInternalError:
                    state.restore()
                    skip_sync = False
                except HostsUpdatedInterrupt as interrupt:
                    skip_sync = interrupt.skip_sync
                reset()
                state.on_reset()
        finally:
            notification_manager.remove_listener(state)

    return wrapper
