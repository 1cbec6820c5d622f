"""The runner of the tests keeps its disk cache within a bound, and lives through a report that was cut off."""

import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
from sources import ROOT

TOOLS = ROOT / "tools"


@pytest.fixture(name="runner", scope="module")
def fixture_runner() -> ModuleType:
    """tools/test, as a module."""
    sys.path.insert(0, str(TOOLS))
    try:
        loader = importlib.machinery.SourceFileLoader("farandole_test_runner", str(TOOLS / "test"))
        spec = importlib.util.spec_from_loader(loader.name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[loader.name] = module  # where the classes of a NamedTuple look for their module
        loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))


def test_the_cache_loses_what_was_not_used_for_longest(runner: ModuleType, tmp_path: pathlib.Path) -> None:
    for age, name in enumerate(("newest", "used", "old", "oldest")):
        path = tmp_path / "cas" / name[:2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    os.utime(tmp_path / "cas" / "us" / "used", (1e9 + 5, 1e9 - 50))  # written first, and read since

    assert runner.disk_cache.trim(tmp_path, 250) == 200

    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"newest", "used"}


def test_programs_leave_the_cache_before_what_a_compiler_took_long_for(
    runner: ModuleType, tmp_path: pathlib.Path
) -> None:
    program = runner.disk_cache.PROGRAM
    for time, (name, size) in enumerate((("object", program - 1), ("old program", program), ("program", program))):
        (tmp_path / name).write_bytes(bytes(size))
        os.utime(tmp_path / name, (1e9 + time, 1e9 + time))

    assert runner.disk_cache.trim(tmp_path, 2 * program) == program

    assert sorted(path.name for path in tmp_path.iterdir()) == ["object", "program"]


def test_a_cache_within_its_bound_stays(runner: ModuleType, tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").write_bytes(bytes(100))

    assert runner.disk_cache.trim(tmp_path, 100) == 0
    assert runner.disk_cache.trim(tmp_path / "missing", 100) == 0

    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize(("free", "said"), [(36 << 30, ""), ((36 << 30) - 1, "test: 35 GiB are free in ")])
def test_little_room_is_said_before_the_tests(
    runner: ModuleType,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    said: str,
) -> None:
    monkeypatch.setattr(runner.disk_cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    runner.disk_cache.make_room(tmp_path, tmp_path)

    out = capsys.readouterr().out
    assert out.startswith(said) and bool(out) == bool(said)


@pytest.mark.parametrize("counter", ["count_bazel", "count_go", "count_pytest"])
def test_a_report_that_was_cut_off_fails_its_part(
    runner: ModuleType, counter: str, capfd: pytest.CaptureFixture
) -> None:
    part = runner.Part(
        "cut",
        "",
        "",
        20,
        lambda report: ["sh", "-c", f'printf \'{{"id": {{"a": "\' > {report}'],
        getattr(runner, counter),
    )

    result = runner.run_part(part, is_shown=False)

    assert "==== cut" in capfd.readouterr().out
    assert result.problem == "tests failed"
    assert result.count.passed == 0
    assert len(result.count.failures) == 1
    assert result.count.failures[0].startswith("its report cannot be read: ")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("[a-z]*")), ids=lambda path: path.name)
def test_each_example_has_tests_of_its_own(runner: ModuleType, example: pathlib.Path) -> None:
    parts = runner.parts_of([str(example.relative_to(ROOT))])

    assert {part.name for part in parts} > {"tidy"}
