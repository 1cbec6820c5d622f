"""A worker of run(): python -m farandole._run_worker."""

from . import _options
from ._run_exchange import Ended, Failure, Result, deliver, fetch
from .basics import is_initialized, last_rank, rank


def _place() -> int:
    """Of this worker's outcome among the others: its rank at the end of an elastic job, in which launch indices are no
    ranks once a worker was lost or has joined. In other jobs init() may have made several of the launched workers."""
    left_as = last_rank()
    return _options.launch_index() if left_as is None else left_as


def main() -> None:
    """Raises the function's exception, once the driver has it: this process then ends as any failed worker does."""
    func, args, kwargs = fetch()
    try:
        value = func(*args, **kwargs)
        deliver(Result(_place(), value))
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            deliver(Ended(_place()))
        else:
            deliver(Failure.of(rank() if is_initialized() else _place(), error))
        raise


if __name__ == "__main__":
    main()
