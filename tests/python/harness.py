"""Many checks in one job: what runs on the ranks, and what pytest asks about it.

A check is a function in a module of `checks/` that all ranks of a job call. One job runs all checks of a module in
order, which is much quicker than a job for each. Each rank appends a line of JSON for every check that it has passed
or failed; it ends at its first failure, and so do the others, by its death.

    farandole run -np 2 python tests/python/harness.py ops DIRECTORY
"""

import importlib
import json
import pathlib
import subprocess
import sys
import traceback
from typing import Any, Callable, Dict, List, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CLI = ROOT / ".venv" / "bin" / "farandole"

# A job that takes longer hangs. The longest needs a quarter of it on two busy cores.
JOB_SECONDS = 240


class Checks:
    """The checks of one module."""

    def __init__(self) -> None:
        self.functions: Dict[str, Callable[[], None]] = {}

    def __call__(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorates a check without arguments."""
        self.functions[function.__name__] = function
        return function

    def each(self, *rows: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Decorates a check that is run once for each row, which is its argument (a tuple: its arguments)."""

        def decorate(function: Callable[..., None]) -> Callable[..., None]:
            for row in rows:
                arguments = row if isinstance(row, tuple) else (row,)
                name = f"{function.__name__}[{'-'.join(map(str, arguments))}]"
                self.functions[name] = lambda arguments=arguments: function(*arguments)
            return function

        return decorate


class Outcome(NamedTuple):
    """Of one job."""

    size: int
    code: int
    output: str
    reports: List[Dict[str, str]]
    """For each rank: check to its error, empty where it passed."""

    def require(self, name: str) -> None:
        """Fails unless all ranks passed the check."""
        for rank, report in enumerate(self.reports):
            error = report.get(name)
            if error is None:
                before = [f"{check} failed" for check, text in report.items() if text]
                raise AssertionError(
                    f"rank {rank} of {self.size} did not come to it: {', '.join(before) or 'it ended before'}; "
                    f"the job's code is {self.code}, its last output:\n{self.output[-3000:]}"
                )
            if error:
                raise AssertionError(f"on rank {rank} of {self.size}:\n{error}")


def require_cli() -> None:
    """Fails with a sentence where the checkout is not built."""
    if not CLI.exists():
        raise AssertionError(f"there is no {CLI}: run `make install` first")


def run(size: int, *command: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command as a job of `size` workers, with stdout and stderr together. Fails if it hangs."""
    require_cli()
    launch = [str(CLI), "run", "-np", str(size), *command]
    process = subprocess.Popen(launch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    try:
        output, _ = process.communicate(timeout=JOB_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher ends its workers
        output, _ = process.communicate()
        raise AssertionError(f"the job hangs: {' '.join(launch)}\n{output[-3000:]}") from None
    return subprocess.CompletedProcess(launch, process.returncode, output)


def run_checks(module: str, size: int, directory: pathlib.Path) -> Outcome:
    """Runs all checks of a module in one job."""
    result = run(size, sys.executable, str(HERE / "harness.py"), module, str(directory))
    reports = []
    for rank in range(size):
        path = directory / f"{rank}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        reports.append(dict(json.loads(line) for line in lines))
    return Outcome(size, result.returncode, result.stdout, reports)


def names(module: str) -> List[str]:
    """The checks of a module."""
    return list(importlib.import_module(f"checks.{module}").check.functions)


def main() -> int:
    """A rank's part."""
    module, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    functions = importlib.import_module(f"checks.{module}").check.functions
    import farandole

    farandole.init()
    with open(directory / f"{farandole.rank()}.jsonl", "w", encoding="utf-8", buffering=1) as report:
        for name, function in functions.items():
            try:
                function()
            except BaseException:  # pylint: disable=broad-except; whatever it is belongs into the report
                report.write(json.dumps([name, traceback.format_exc()]) + "\n")
                return 1
            report.write(json.dumps([name, ""]) + "\n")
    farandole.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
