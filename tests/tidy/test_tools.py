"""The runner of the tests keeps its disk cache within a bound, lives through a report that was cut off, and has some parts
step back for others."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
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


def test_a_part_that_steps_back_runs_in_the_group_of_the_compilers(
    runner: ModuleType, capfd: pytest.CaptureFixture
) -> None:
    with subprocess.Popen(["sleep", "60"]) as compiler:
        with runner.group_that_steps_back(str(compiler.pid)) as words:
            part = runner.Part("one", "", "", 20, lambda _: ["cat", "/proc/self/cgroup"], runner.count_pytest)
            runner.run_part(part, is_shown=True, before=words)
            groups = pathlib.Path(f"/proc/{compiler.pid}/cgroup").read_text(encoding="ascii")
        after = pathlib.Path(f"/proc/{compiler.pid}/cgroup").read_text(encoding="ascii")
        compiler.kill()

    assert groups in capfd.readouterr().out
    assert "farandole-test" not in after
    if not words:
        pytest.skip("there are no groups that this user may make")
    assert f"farandole-test-{os.getpid()}" in groups


def test_the_patch_of_the_bench_applies() -> None:
    patch = ROOT / "tests" / "bench" / "without_measurements.patch"

    applied = subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True, check=False)

    assert applied.returncode == 0, applied.stderr


def test_a_lane_that_has_done_its_own_parts_takes_spare_ones(runner: ModuleType, tmp_path: pathlib.Path) -> None:
    def part(name: str, lane: str, script: str) -> tuple:
        command = ["sh", "-c", f"cd {tmp_path}; {script}; echo {name} >> ran"]
        return runner.Part(name, "", lane, 60, lambda _: command, runner.count_pytest)

    parts = [
        part("long", "jobs", "until grep -q second ran; do :; done"),
        part("first", runner.SPARE, ":"),
        part("second", runner.SPARE, ":"),
        part("short", runner.BACKGROUND, "touch ran"),
    ]

    results = runner.run_lanes(parts, [])

    assert [result.part for result in results] == parts
    assert (tmp_path / "ran").read_text(encoding="ascii").split() == ["short", "first", "second", "long"]
    assert [result.part.name for result in runner.run_lanes(parts[1:3], [])] == ["first", "second"]


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("[a-z]*")), ids=lambda path: path.name)
def test_each_example_has_tests_of_its_own(runner: ModuleType, example: pathlib.Path) -> None:
    parts = runner.parts_of([str(example.relative_to(ROOT))])

    assert {part.name for part in parts} > {"tidy"}
