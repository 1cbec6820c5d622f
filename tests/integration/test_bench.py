"""`farandole bench` and the suite of tests/bench measure what they say, and notice wrong results; no time is judged here."""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree
from typing import Callable, Iterator

import harness
import pytest
from programs_run import Program

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import cells  # noqa: E402
import groups  # noqa: E402
import measuring  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402

RUN = [str(harness.CLI), "run", "-np", "2"]
BENCH = [str(harness.CLI), "bench"]
SUITE = cells.Suite([], [], [], rounds=2, seconds=0.01, train_steps=1, bursts=2, frameworks=False, cpu=True, limit_s=60)


def test_every_op_is_measured_and_right(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    written = tmp_path / "results.json"
    ops = "allreduce,allgather,broadcast,barrier,alltoall,reducescatter,gather,scatter"
    what = ["--op", ops, "--dtype", "f32,bf16", "--max", "64K", "--factor", "256"]
    run = start(*RUN, *BENCH, *what, "--seconds", "0.01", "--json", str(written))
    run.require_end(0)
    results = json.loads(written.read_text(encoding="utf-8"))
    assert (results["ranks"], results["hosts"]) == (2, 1)
    rows = results["rows"]
    assert len(rows) == 7 * 2 * 2 + 1, run.output
    assert all(row["wrong"] == 0 and row["steps"] >= 5 and 0 < row["median_us"] <= row["p99_us"] for row in rows)
    assert {row["op"] for row in rows} == set(ops.split(","))
    assert run.output.count("allreduce") == run.output.count(" gather") == run.output.count(" scatter") == 4
    assert "[1] " not in run.output, "rank 0 tells"


def test_many_tensors_are_one_step(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    written = tmp_path / "results.json"
    what = ["--tensors", "20", "--min", "16K", "--max", "16K", "--reduce", "max", "--dtype", "i32"]
    start(*RUN, *BENCH, *what, "--seconds", "0.01", "--json", str(written)).require_end(0)
    (row,) = json.loads(written.read_text(encoding="utf-8"))["rows"]
    assert (row["tensors"], row["count"], row["reduce"], row["wrong"]) == (20, 4096, "max", 0)
    assert row["algbw_gb_s"] == pytest.approx(20 * 16384 / row["median_us"] / 1e3)


def test_what_cannot_be_measured_is_said_by_name(start: Callable[..., Program]) -> None:
    run = start(*BENCH, "--op", "join")
    run.require_end(2)
    assert "--op is 'join', but must be one of allreduce, allgather, broadcast, barrier, alltoall, " in run.output


def test_the_page_has_every_table_and_judges_by_ratios() -> None:
    slow, fast = [0.3, 0.1, 0.2], [0.03, 0.02, 0.01]
    cell = cells.Cell(2, 4, goal=cells.Goal(c=2.0, python=15.0))
    cell_times = {"farandole-c": fast, "openmpi-c": slow, "farandole": fast, "gloo": slow}
    trained = (cells.MODELS[0], {"alone": fast, "ddp": slow, "farandole": fast})
    link = {"1gbit": {"farandole": [0.6], "gloo": [1.2]}}
    cpu = {"farandole": {"idle": 0.0, "late": 0.5}}
    bursts = {2: {"farandole": [3e-6, 1e-6, 2e-6]}}
    ways = {"farandole": fast, "own": slow, "alone": [0.02, 0.015, 0.005]}
    jax = report.FrameworkRow("JAX", "its own collectives", "4 B", ways, cells.CallGoal("alone", 100, 60e-6))
    eager = report.FrameworkRow("TF", "", "4 B", {"farandole": fast, "c": [0.001] * 3}, cells.CallGoal("c", 1, 15e-6))
    results = report.Results(
        [(cell, cell_times)], [trained], [jax, eager], bursts, link, cpu, ["a fact"], ["a remark"], 3
    )
    page = report.page(results)
    assert "| 4 B | 20.0 ms | 200 ms | 10.0 x | 2.00 x, met |" in page, page
    assert "| 4 B | 20.0 ms | 200 ms | 10.0 x | 15.0 x, **missed** | - | - |" in page, page
    assert "| 20.0 ms | 200 ms | 10% | 20.0 ms | 100%, goal 90% met |" in page, page
    assert "| JAX | 4 B | 15.0 ms | 20.0 ms | 200 ms | its own collectives | 10.0 x | 50.0 us than an op" in page, page
    assert "goal 60.0 us met |" in page, page
    assert "| TF | 4 B | - | 20.0 ms | - | - | - | 19.0 ms than from C++, goal 15.0 us **missed** |" in page, page
    assert "| 2 | 2.00 us | 3.00 us, goal 4.00 us met |" in page, page
    assert "| 1 Gbit/s | 600 ms | 89% | 1.20 s | 45% |" in page, page
    assert "| Farandole, torch | 0.00% | 50.00% |" in page, page
    assert "- a fact\n- a remark\n" in page, page


def test_the_picture_has_a_line_for_each_contender() -> None:
    picture = plot.draw("title", {"gloo": [(4, 1e-4), (1 << 20, 1e-2)], "farandole": [(4, 1e-6)]}, report.NAMES)
    root = xml.etree.ElementTree.fromstring(picture)
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [line.get("stroke") for line in lines] == [plot.COLORS["gloo"], plot.COLORS["farandole"]]
    assert all(0 <= float(number) <= plot.WIDTH for line in lines for number in re.split("[ ,]", line.get("points")))


@pytest.fixture(scope="module", name="group")
def _group() -> Iterator[groups.Group]:
    group = groups.Group(groups.farandole_launch(2))
    yield group
    group.close()


def test_the_suite_measures_cells_and_shows_them(group: groups.Group) -> None:
    measured = []
    for cell in (cells.Cell(2, 1024), cells.Cell(2, 64, "f16", "many", 3), cells.Cell(2, 64, "f32", "flat", 3)):
        times = measuring.measure_cell(cell, [group], SUITE._replace(cells=[cell]))
        assert len(times["farandole"]) == SUITE.rounds
        measured.append((cell, times))
    lines = report.collectives([(cell, {**times, "gloo": [1.0, 3.0]}) for cell, times in measured])
    assert any(line.startswith("| float16, 3 tensors of 64 B | ") and " | 2.00 s | " in line for line in lines), lines


def test_the_suite_trains_a_model(group: groups.Group) -> None:
    for trained in cells.MODELS[2:]:
        times = measuring.measure_training(trained, [group], SUITE._replace(rounds=1))
        assert list(times) == ["farandole"]


def test_a_contender_that_dies_is_named(group: groups.Group) -> None:
    with pytest.raises(groups.BenchError, match="farandole did not answer .*'nonsense'"):
        group.order(do="nonsense")
