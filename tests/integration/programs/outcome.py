"""How a program of the tests tells of its error."""

import sys
from typing import Callable


def run_and_report(main: Callable[[], None]) -> None:
    """Runs main(). An exception of it becomes a line of output, `TYPE: SENTENCE`, and the exit code 3."""
    try:
        main()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(3)
