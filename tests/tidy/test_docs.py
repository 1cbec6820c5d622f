"""The documentation: its site builds, its links lead somewhere, and pages drawn from the code are as the code is."""

import pathlib
import re
import subprocess
from typing import Dict, Iterator, List, Set, Tuple

import pytest
from sources import ROOT, Source, tracked_sources


@pytest.fixture(scope="module", name="pages")
def _pages() -> List[Source]:
    return [source for source in tracked_sources() if source.path.endswith(".md")]


def test_the_site_builds_without_a_warning(tmp_path: pathlib.Path) -> None:
    run = subprocess.run(
        ["tools/docs", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert run.returncode == 0, "\n" + run.stdout.decode()
    assert (tmp_path / "README.html").exists() and (tmp_path / "search.html").exists()


def test_links_to_files_lead_somewhere(pages: List[Source]) -> None:
    lost = [
        f"{page.path}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.text)
        if not (ROOT / page.path).parent.joinpath(target).exists()
    ]
    assert not lost, "\n" + "\n".join(lost)


# Written by programs.
GENERATED = (
    "docs/growth.md",
    "docs/map.md",
    "docs/metrics.md",
    "docs/settings.md",
    "docs/benchmarks/",
    "docs/faults.md",
)
MOST_COLUMNS = 120


def test_lines_end_at_column_120(pages: List[Source]) -> None:
    long = []
    for page in pages:
        if page.path.startswith(GENERATED) or "testdata" in page.path:
            continue
        prose = re.sub(r"^```.*?^```$", "", page.text, flags=re.MULTILINE | re.DOTALL)
        for line in prose.splitlines():
            # Tables and indented code are as long as they have to be, and so is a link.
            if len(line) > MOST_COLUMNS and not line.startswith(("|", "    ")) and " " in line[:MOST_COLUMNS].strip():
                long.append(f"{page.path}: {line}")
    assert not long, f"{len(long)} lines:\n" + "\n".join(long[:20])


def test_a_page_says_in_its_first_lines_whom_it_is_for(pages: List[Source]) -> None:
    # The pages of decisions are for the readers of their index. An index names the readers of each page.
    silent = [
        page.path
        for page in pages
        if page.path.startswith("docs/")
        and not page.path.startswith("docs/decisions/")
        and not page.path.endswith("/README.md")
        and not re.search(r"^For ", "\n".join(page.lines[:6]), re.MULTILINE)
    ]
    assert not silent, f"{silent}: begin with 'For ...', in the program that writes the page if one does"


def test_the_house_map_is_up_to_date() -> None:
    drawn = subprocess.run(["tools/house_map"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    assert (ROOT / "docs/map.md").read_text() == drawn, "draw it again: tools/house_map >docs/map.md"


def test_the_service_starts_again_however_often_it_is_killed() -> None:
    sections = (ROOT / "deploy/systemd/farandole.service").read_text().split("\n[")
    unit, service = (next(one for one in sections if one.startswith(name)) for name in ("Unit]", "Service]"))
    # By default systemd gives up after five starts in 10 s.
    assert "\nStartLimitIntervalSec=0\n" in unit and "\nRestart=on-failure\n" in service


# A class whose name ends with one of these stands in the glossary, so that a stranger can look it up.
METAPHORS = frozenset(
    "Accusations Ballot Conversation Cork Dear Debt Deed Deeds Desk Dismissal Door Employer Errand Errands Fence Glance "
    "Guest Inheritance Judge Knock Lineage Lobby Lookout Mailbox Meeting Mint Noticeboard Offer Outlet Pulses Rendezvous "
    "Roster Seat Siblings Staffing Stranger Surroundings Survivors Sweeper Switchboard Turn Turns Wish Witness".split()
)


def _classes(sources: List[Source]) -> Dict[str, Set[str]]:
    """The files of each C++ class at any depth, without tests and SDKs, whose classes may have the same names."""
    pattern = re.compile(r"^ *(?:class|struct) (?:\w+::)*(\w+)(?: final)?(?: : [^;{]*)? \{", re.MULTILINE)
    files: Dict[str, Set[str]] = {}
    for source in sources:
        if source.language == "cpp" and not source.path.startswith(("sdk/", "tests/")) and "_test." not in source.path:
            for name in pattern.findall(source.text):
                files.setdefault(name, set()).add(source.path)
    return files


def _glossary(pages: List[Source]) -> Set[str]:
    architecture = next(page for page in pages if page.path == "docs/architecture.md")
    glossary = architecture.text.split("### Glossary")[1].split("\n## ")[0]
    return set(re.findall(r"^\| ([A-Z]\w+) \|", glossary, re.MULTILINE))


def test_a_name_of_the_glossary_is_one_class(pages: List[Source]) -> None:
    named, classes = _glossary(pages), _classes(tracked_sources())
    assert named and named <= set(classes), f"no such class: {sorted(named - set(classes))}"
    twice = {name: sorted(classes[name]) for name in named if len(classes[name]) > 1}
    assert not twice, f"{twice}: a name has one meaning; rename the other classes"


def test_a_class_with_a_metaphor_for_a_name_is_in_the_glossary(pages: List[Source]) -> None:
    named = _glossary(pages)
    missing = {
        name: sorted(files)
        for name, files in _classes(tracked_sources()).items()
        if name not in named and re.split(r"(?=[A-Z])", name)[-1] in METAPHORS
    }
    assert not missing, f"{missing}: name it by a term of the field, or explain it in docs/architecture.md, Glossary"


# Pages whose tables of differences name the tests that show each row, in a last column "shown by"; and these tests' folders.
TABLES = {
    "docs/jax.md": "tests/jax",
    "docs/keras.md": "tests/keras",
    "docs/mxnet.md": "tests/mxnet",
    "docs/tensorflow.md": "tests/tensorflow",
}
# These may lack the column.
WITHOUT_COLUMN = ("docs/keras.md", "docs/tensorflow.md")


def rows_of(page: Source) -> List[List[str]]:
    """The cells of the rows of the page's table of differences, its heads first."""
    section = re.search(r"^## Differences[^\n]*\n(.*?)(?=^## |\Z)", page.text, re.MULTILINE | re.DOTALL)
    lines = [line for line in section.group(1).splitlines() if line.startswith("|")] if section else []
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if not line.startswith("|--")]


def named_tests(cell: str) -> Iterator[Tuple[str, str]]:
    """The pairs of a file and a test in a cell: `file`: `test`, `test`; `file`: `test`. Words in a test's place stand for
    all of the file, which is ""."""
    for part in cell.split("; "):
        file, _, names = part.partition(": ")
        for name in names.split(", "):
            yield file.strip("`"), name.strip("`") if name.startswith("`") else ""


def has_test(folder: str, file: str, name: str) -> bool:
    """Whether the folder's file, a module of checks unless it ends in .py, has the test."""
    found = list((ROOT / folder).glob(file if file.endswith(".py") else f"*_checks/{file}.py"))
    return any(not name or re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE) for path in found)


def test_rows_of_differences_name_tests_that_exist(pages: List[Source]) -> None:
    wrong = []
    for page in pages:
        if page.path not in TABLES:
            continue
        heads, *rows = rows_of(page)
        if heads[-1] != "shown by":
            wrong += [] if page.path in WITHOUT_COLUMN else [f"{page.path}: the table has no column shown by"]
            continue
        for row in rows:
            tests = list(named_tests(row[-1]))
            if len(row) != len(heads) or not all(has_test(TABLES[page.path], *test) for test in tests):
                wrong.append(f"{page.path}: {row[0]}: there is no such test: {row[-1]}")
    assert not wrong, "\n" + "\n".join(wrong)
