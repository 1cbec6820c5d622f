"""The process that sees a failure tells it in one sentence."""

import pathlib
import re
import sys
from typing import Callable

import harness
from coordinators import Coordinator
from gates import Gate
from programs_run import SOON_SECONDS, Program

EXAMPLES = harness.ROOT / "examples"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


def test_rank_that_never_joins_is_counted(job: Callable[..., Program], gate: Gate) -> None:
    run = job(2, "absent", gate, options=["--start-timeout", "2"])
    run.expect(r"\[0\] StallError: .*\b1 of 2 workers", SOON_SECONDS + 20)
    run.require_end(3)
    assert "Traceback" not in run.output, run.output


def test_wrong_token_is_refused_before_workers_start(
    job: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong", encoding="utf-8")
    run = job(1, "absent", "no", options=["--coordinator", coordinator.address, "--token-file", str(wrong)])
    run.require_end(1)
    refusal = (
        f"coordinator {coordinator.address} refused the token in {wrong}: the token is not known to this coordinator"
    )
    assert run.output == f"farandole: {refusal}\n"


def test_wrong_token_of_a_worker_without_a_launcher_is_refused(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong", encoding="utf-8")
    run = start(
        *(sys.executable, str(PROGRAMS / "absent.py"), "no"),
        FARANDOLE_COORDINATOR=coordinator.address,
        FARANDOLE_TOKEN_FILE=str(wrong),
        FARANDOLE_SIZE="1",
        FARANDOLE_LAUNCH_INDEX="0",
    )
    run.expect(rf"PermissionError: coordinator {coordinator.address} refused the token in {wrong}: ")
    run.require_end(3)
    assert "Traceback" not in run.output, run.output


def test_unreadable_token_file_is_named(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "missing"
    options = ["-np", "1", "--coordinator", "127.0.0.1:1", "--token-file", str(missing)]
    run = start(str(harness.CLI), "run", *options, "true")
    run.require_end(1)
    assert run.output == f"farandole: --token-file {missing} cannot be read: No such file or directory\n"


def test_port_in_use_is_named(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    address = serve().address
    second = start(str(harness.CLI), "serve", "--listen", address, "--state-dir", str(tmp_path / "second"))
    second.require_end(1)
    assert re.fullmatch(rf"farandole serve: [^\n]*{address}[^\n]*in use[^\n]*\n", second.output), second.output


def test_ranks_that_disagree_see_both_values_and_go_on(job: Callable[..., Program]) -> None:
    run = job(2, "mismatch")
    run.require_end(0)
    for rank in range(2):
        said = re.findall(rf"^\[{rank}\] ValueError: (.*)$", run.output, re.MULTILINE)
        assert len(said) == 2, run.output
        for sentence, words in zip(said, (("shapes", "4,8", "8,4"), ("dtypes", "32", "64"))):
            assert all(word in sentence for word in (*words, "rank 0", "rank 1")), sentence
        assert f"[{rank}] done" in run.output, run.output


def test_stalled_tensor_is_named_with_who_is_missing(job: Callable[..., Program], gate: Gate) -> None:
    run = job(2, "late", gate, FARANDOLE_STALL_WARNING_MS="1000")
    said = run.expect(r"\[0\] .*tensor late.*rank 1 \(.*\)").group()
    assert "rank 0" in said and "last submitted before" in said, said
    gate.let_through(1)
    run.require_end(0)
    assert run.output.count("done") == 2, run.output


def test_a_stall_beyond_its_limit_ends_the_job(job: Callable[..., Program], gate: Gate) -> None:
    run = job(2, "late", gate, FARANDOLE_STALL_WARNING_MS="500", FARANDOLE_STALL_LIMIT_MS="2000")
    run.expect(r"\[0\] .*StallError: a tensor of rank 0 \(.*\) is stalled for 2 s, .*: tensor late.*rank 1")
    run.require_end(1)
    assert "done" not in run.output, run.output


def test_unreadable_data_of_the_demo_are_named(start: Callable[..., Program]) -> None:
    run = start(sys.executable, str(EXAMPLES / "fashion_mnist.py"), "--data", "/nonexistent")
    run.require_end(1, 200)
    assert re.fullmatch(r"/nonexistent/\S+ cannot be read: [^\n]*\n", run.output), run.output
