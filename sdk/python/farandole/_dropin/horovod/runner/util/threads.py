"""Functions in threads, by Horovod's name."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple


def in_thread(
    target: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    name: Optional[str] = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Calls `target` in a new thread, and returns that. `silent`: its exceptions are dropped. ValueError: `args` is no
    tuple."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use (arg,)")

    def run() -> None:
        try:
            target(*args)
        except Exception:  # pylint: disable=broad-except; the caller wants it so
            if not silent:
                raise

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event,
    func: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    stop: Optional[threading.Event] = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Calls `func` in a new thread when `event` is set, unless `stop` is set before, which is looked at in intervals.
    ValueError: there is no event, `args` is no tuple, or a thread that is no daemon could never stop."""
    if event is None:
        raise ValueError("Event must not be None")
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use (arg,)")
    if stop is None and not daemon:
        raise ValueError("Stop event must be given for non-daemon event thread")

    def run() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(run, daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[List[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> Optional[Dict[int, Any]]:
    """Calls `fn` with each list of arguments, in as many threads at once. Returns the results by the numbers of the lists,
    or None at once where it is not to wait. RuntimeError: a call has failed."""
    if not block_until_all_done:
        for arguments in args_list:
            in_thread(fn, tuple(arguments))
        return None
    if not args_list:
        return {}
    with ThreadPoolExecutor(min(max_concurrent_executions, len(args_list))) as pool:
        futures = [pool.submit(fn, *arguments) for arguments in args_list]
    failed = next((future.exception() for future in futures if future.exception() is not None), None)
    if failed is not None:
        name = getattr(fn, "__name__", repr(fn))
        raise RuntimeError(f"Some threads for func {name} did not complete successfully.") from failed
    return {number: future.result() for number, future in enumerate(futures)}
