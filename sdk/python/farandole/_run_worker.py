"""A worker of run(): python -m farandole._run_worker."""

from . import _options
from ._run_exchange import Ended, Failure, Result, deliver, fetch
from .basics import is_initialized, rank


def _rank() -> int:
    return rank() if is_initialized() else _options.launch_index()


def main() -> None:
    """Raises the function's exception, once the driver has it: this process then ends as any failed worker does."""
    func, args, kwargs = fetch()
    try:
        deliver(Result(_rank(), func(*args, **kwargs)))
    except BaseException as error:
        failed = not isinstance(error, SystemExit) or error.code
        deliver(Failure.of(_rank(), error) if failed else Ended(_rank()))
        raise


if __name__ == "__main__":
    main()
