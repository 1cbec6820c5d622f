"""The code of pages of docs/ runs as it stands there, on two ranks; each framework's tests run that of its page."""

import pathlib
import re
import sys

import harness
import pytest
from pages import DOCS, code_of

# The page's names that its reader has, and what its code must have come to at the end.
PAGES = {
    "pytorch.md": (
        "",
        "assert total.tolist() == [2.0] * 3 and later.tolist() == [1.0] * 3 and rows.shape == (3, 2)\n"
        "assert not even.included() or mean.item() == 0.0\n"
        "assert hvd.join() in (0, 1)\n",
    ),
    "checkpoints.md": (
        "directory = __import__('sys').argv[1]\n",
        "assert first == 0 and checkpoint.latest(directory, 'weights').endswith('.bin')\n"
        "assert checkpoint.load(checkpoint.latest(directory))['step'] == 4\n"
        "assert checkpoint.find(directory, step=2) and not checkpoint.find(directory, step=3)\n",
    ),
    "numpy.md": (
        "",
        "assert mean.tolist() == [0, 1, 2, 3] and gradient.tolist() == [3, 3, 3] and rows.shape == (3, 2)\n"
        "assert later.tolist() == [1] * 5 and (hvd.allreduce(start, op=hvd.Max) == start).all()\n",
    ),
}


@pytest.mark.parametrize("page", PAGES)
def test_its_code_runs(page: str, tmp_path: pathlib.Path) -> None:
    before, after = PAGES[page]
    program = tmp_path / "program.py"
    program.write_text(f"{before}{code_of(page)}\n{after}print('ran to its end')\n", encoding="utf-8")
    directory = tmp_path / "not" / "yet"
    result = harness.run(harness.Setup(2), tmp_path / "state", sys.executable, str(program), str(directory))
    assert result.returncode == 0 and result.stdout.count("ran to its end") == 2, result.stdout


def test_a_second_run_goes_on_from_the_newest_checkpoint(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    first = PAGES["checkpoints.md"][0] + code_of("checkpoints.md").partition("checkpoint.save(lambda")[0]
    program.write_text(f"{first}\nprint('began at', first)\n", encoding="utf-8")
    for began in (0, 5):
        result = harness.run(harness.Setup(2), tmp_path / "state", sys.executable, str(program), str(tmp_path))
        assert result.returncode == 0 and result.stdout.count(f"began at {began}\n") == 2, result.stdout


def row_of(page: str, first: str) -> str:
    """The code in the second column of a table's row."""
    found = re.search(rf"^\| {first} \| `(.*?)` \|$", (DOCS / page).read_text(encoding="utf-8"), re.M)
    assert found, f"{page} has no row {first}"
    return found.group(1)


def test_numpys_checkpoint_has_what_was_given(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy, farandole.numpy as hvd\nfrom farandole import checkpoint\nhvd.init()\n"
        "directory, step, line = sys.argv[1], 3, numpy.arange(5)\n"
        f"{row_of('checkpoints.md', 'NumPy')}\nhvd.barrier()\n"
        "assert (numpy.load(checkpoint.latest(directory))['line'] == line).all()\nprint('it is there')\n",
        encoding="utf-8",
    )
    result = harness.run(harness.Setup(2), tmp_path / "state", sys.executable, str(program), str(tmp_path))
    assert result.returncode == 0 and result.stdout.count("it is there") == 2, result.stdout
