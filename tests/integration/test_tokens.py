"""Tokens of a shared coordinator: what ends when one is revoked."""

import json
import pathlib
import subprocess
from typing import Callable, List

import harness
from coordinators import Coordinator
from programs_run import Program

Serve = Callable[..., Coordinator]


def _farandole(*words: str) -> str:
    done = subprocess.run([str(harness.CLI), *words], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return done.stdout


def _options(coordinator: Coordinator, token_file: pathlib.Path, *more: str) -> List[str]:
    return ["--coordinator", coordinator.address, "--token-file", str(token_file), *more]


def test_a_revoked_token_ends_the_jobs_that_were_launched_with_it(
    job: Callable[..., Program], serve: Serve, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    admin, launcher = tmp_path / "admin", tmp_path / "launcher"
    _farandole("tenant", "create", "vision", "--out", str(admin), *coordinator.options())
    _farandole("token", "create", "--role", "launcher", "--out", str(launcher), *_options(coordinator, admin))
    ours = job(2, "stepping", tmp_path, options=_options(coordinator, launcher, "--job", "ours"))
    theirs = job(1, "stepping", tmp_path, options=_options(coordinator, admin, "--job", "theirs"))
    ours.expect(r"\[1\] step \d+")
    theirs.expect(r"\[0\] step \d+")
    listed = json.loads(_farandole("token", "list", "--json", *_options(coordinator, admin)))
    token = next(row["id"] for row in listed if row["role"] == "launcher")
    _farandole("token", "revoke", token, *_options(coordinator, admin))
    assert ours.end() != 0
    assert f"token {token} was revoked at" in ours.output, ours.output
    theirs.expect(r"\[0\] step \d+")
    shown = subprocess.run(
        [str(harness.CLI), "job", "list", *_options(coordinator, launcher)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert shown.returncode == 1 and f"token {token} was revoked at" in shown.stderr, shown.stderr
