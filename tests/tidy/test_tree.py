"""The committed tree keeps docs/style.md's guides."""

import pathlib
import re
import subprocess
from typing import Dict, List, Set, Tuple

import pytest
from classes import GUIDE, LARGE, class_sizes, large_classes, repeated_classes
from folders import MAX_FOLDER_FILES, circles, crowded, folder_includes
from rules import ENVIRONMENT_READERS, LIBRARIES, RULES, SLEEPERS, Rule, named_types
from sources import ROOT, Source, tracked_sources


@pytest.fixture(scope="module", name="tree")
def _tree() -> List[Source]:
    return tracked_sources()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(tree: List[Source], rule: Rule) -> None:
    findings = [finding for source in tree for finding in rule(source)]
    assert not findings, "\n" + "\n".join(map(str, findings))


def test_exceptions_name_files_that_exist(tree: List[Source]) -> None:
    exact = [path for table in (ENVIRONMENT_READERS, SLEEPERS) for path in table if "*" not in path]
    paths = {source.path for source in tree}
    assert not [path for path in exact if path not in paths], "drop these from the tables of tests/tidy/rules.py"
    assert all(library.owners for library in LIBRARIES)


def test_types_of_one_namespace_have_names_of_their_own(tree: List[Source]) -> None:
    # A program may link both, and the linker keeps one of what the two make of a template.
    places: Dict[Tuple[str, str], Set[str]] = {}
    for source in tree:
        for name in named_types(source):
            places.setdefault(name, set()).add(source.path)
    twice = {"::".join(name): sorted(paths) for name, paths in places.items() if len(paths) > 1}
    assert not twice, f"rename one of each: {twice}"


def test_no_folders_include_each_other(tree: List[Source]) -> None:
    includes = folder_includes(tree)
    told = [
        "\n".join(includes[folder][other] for folder in group for other in group if other in includes[folder])
        for group in circles(includes)
    ]
    assert not told, "move what both sides need into the lower folder:\n" + "\n\n".join(told)


def test_a_folder_holds_one_idea(tree: List[Source]) -> None:
    told = crowded(tree)
    assert not told, f"{told}: {MAX_FOLDER_FILES} files are allowed; give the folder's second idea a folder of its own"


def test_a_class_name_is_defined_once(tree: List[Source]) -> None:
    told = repeated_classes(tree)
    assert not told, f"{told}: programs that link both break the one definition rule; rename one"


def test_a_class_holds_one_idea(tree: List[Source]) -> None:
    told = large_classes(tree)
    assert not told, f"{told}: {GUIDE} is allowed; give the class's second idea a class of its own"
    sizes = class_sizes(tree)
    small = [name for name in LARGE if sizes[name].methods <= GUIDE.methods and sizes[name].lines <= GUIDE.lines]
    assert not small, f"drop {small} from the table of tests/tidy/classes.py"


def test_sources_are_formatted() -> None:
    run = subprocess.run(
        ["tools/fmt", "--check"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert run.returncode == 0, "\n" + run.stdout.decode()


def test_shell_scripts_pass_shellcheck(tree: List[Source]) -> None:
    scripts = [source.path for source in tree if source.language == "shell"]
    run = subprocess.run(
        ["shellcheck", *scripts], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert run.returncode == 0, "\n" + run.stdout.decode()


def test_the_package_and_the_programs_are_of_one_version() -> None:
    version = (ROOT / "VERSION").read_text().strip()
    project = pathlib.Path(ROOT / "sdk/python/pyproject.toml").read_text()
    assert f'version = "{version}"' in project, f"sdk/python/pyproject.toml is not at {version}, as VERSION is"


@pytest.mark.parametrize("path", ["worker/launch/options.cc", "deploy/cli/serve_options.cc"])
def test_every_setting_is_documented(path: str) -> None:
    page = (ROOT / "docs/settings.md").read_text()
    settings = set(re.findall(r'"(FARANDOLE_[A-Z_]+)"', (ROOT / path).read_text()))
    missing = sorted(name for name in settings if f"`{name}`" not in page)
    command = 'bazel run //tools/reference:write_reference -- "$PWD/docs"'
    assert settings and not missing, f"{missing}: put them into the table of {path}, then {command}"


@pytest.mark.parametrize(
    "name",
    [
        "apt-packages.txt",
        "apt-packages-test.txt",
        "apt-packages-aarch64.txt",
        "apt-packages-soak.txt",
        "apt-packages-peers.txt",
    ],
)
def test_the_list_of_packages_is_sorted(name: str) -> None:
    lines = (ROOT / "tools" / name).read_text().splitlines()
    assert lines == sorted(lines), "tools/setup compares it with comm: sort it by LC_ALL=C sort"
