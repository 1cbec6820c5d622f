"""The button of a job's page that asks its program for a checkpoint: rights, confirmation, audit, and what comes of it."""

import pathlib
import re
import subprocess
from typing import Callable

import harness
from browsers import (
    PATIENCE_MS,
    Watched,
    audited,
    confirm_by_keys,
    make_token,
    require_clean,
    sign_in,
    sign_in_anew,
    token_of,
)
from coordinators import Coordinator
from playwright.sync_api import expect
from programs_run import START_SECONDS, Program


def test_a_checkpoint_is_asked_for_on_the_page(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page = watched.page
    run = job(2, "asked_checkpoint", tmp_path, "--times", 2, options=coordinator.options("--job", "asked"))
    run.expect("runs as rank", START_SECONDS)

    sign_in(page, coordinator.http, make_token(coordinator, "viewer", tmp_path), "#/jobs/default/asked")
    closer = page.get_by_role("region", name="Look closer")
    expect(closer).to_contain_text("nobody has asked for a checkpoint", timeout=PATIENCE_MS)
    expect(closer.get_by_role("button", name="Stacks now")).to_be_visible()
    expect(closer.get_by_role("button", name="Checkpoint now")).to_have_count(0)
    asked = "async path => (await fetch(path, {method: 'POST'})).status"
    assert page.evaluate(asked, "/api/v1/jobs/asked/checkpoint?tenant=default") == 403

    sign_in_anew(page, coordinator.http, token_of(coordinator), "#/jobs/default/asked")
    button = closer.get_by_role("button", name="Checkpoint now", exact=True)
    sure = closer.get_by_role("button", name="Yes: checkpoint now")
    warning = "The program is asked to write a checkpoint at its next step, and goes on."
    confirm_by_keys(coordinator, button, sure, warning)
    expect(closer.get_by_role("status").last).to_have_text("The program is asked for a checkpoint.")
    expect(closer).to_contain_text(re.compile(r"by token \w+ \(\w+.*\): written at step \d+, /"), timeout=PATIENCE_MS)
    require_clean(page)
    assert audited(coordinator) == [("POST /api/v1/jobs/*/checkpoint", "job default/asked")]
    page.get_by_role("link", name="checkpoints", exact=True).click()
    expect(page.get_by_role("table", name="Checkpoints")).to_contain_text("checkpoint")

    words = ("job", "checkpoint", "asked", "--wait")
    subprocess.check_call([str(harness.CLI), *words, *coordinator.options()], timeout=60)
    run.require_end(0)
    watched.require_peace(coordinator.http)
