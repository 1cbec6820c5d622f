"""The row of the C++ SDK in the conformance suite: every check of checks/ in the setups of the other adapters."""

import json
import pathlib
import subprocess
from typing import Callable, Dict, List

import harness
import pytest

PROGRAM = harness.ROOT / ".venv" / "lib" / "cpp" / "checks"

# As the ranks may be connected: in memory, over TCP, and over hosts of one and of several ranks.
SETUPS = (
    *(harness.Setup(size) for size in (1, 2, 3, 4)),
    harness.Setup(2, hosts=2, transport="tcp"),
    harness.Setup(3, hosts=1, transport="tcp"),
    harness.Setup(3, hosts=2),
    harness.Setup(4, hosts=2),
    harness.Setup(4, hosts=2, transport="gloo"),
)


def names() -> List[str]:
    """The checks that the program has; where it is not built, one that fails with a sentence."""
    if not PROGRAM.exists():
        return ["the program is not built"]
    return subprocess.run([PROGRAM, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()


@pytest.fixture(scope="session")
def outcome_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[harness.Setup], harness.Outcome]:
    """The outcome of all checks in a setup; the job runs when it is asked for first."""
    outcomes: Dict[harness.Setup, harness.Outcome] = {}

    def outcome(setup: harness.Setup) -> harness.Outcome:
        if setup not in outcomes:
            directory = tmp_path_factory.mktemp(f"cpp{setup}")
            result = harness.run(setup, directory / "state", str(PROGRAM), str(directory))
            reports = []
            for rank in range(setup.size):
                path = pathlib.Path(directory / f"{rank}.jsonl")
                lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
                reports.append(dict(json.loads(line) for line in lines))
            outcomes[setup] = harness.Outcome(setup.size, result.returncode, result.stdout, reports)
        return outcomes[setup]

    return outcome


@pytest.mark.parametrize("setup", SETUPS, ids=str)
@pytest.mark.parametrize("name", names())
def test_check_passes_on_all_ranks(
    setup: harness.Setup, name: str, outcome_of: Callable[[harness.Setup], harness.Outcome]
) -> None:
    assert PROGRAM.exists(), f"there is no {PROGRAM}: run `make install` first"
    outcome_of(setup).require(name)


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_the_job_ends_well(setup: harness.Setup, outcome_of: Callable[[harness.Setup], harness.Outcome]) -> None:
    outcome = outcome_of(setup)
    assert outcome.code == 0, outcome.output
