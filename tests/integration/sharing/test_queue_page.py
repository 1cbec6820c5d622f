"""The page of a job that waits in the queue: its place, its reason, and the form by which it gives the place up."""

import pathlib
import re
from typing import Callable

from browsers import PATIENCE_MS, Watched, require_clean, sign_in, sign_in_anew
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import expect
from programs_run import Program
from test_queue import WAITS, Team


def test_a_queued_job_gives_its_place_up_on_its_page(
    start: Callable[..., Program],
    serve: Callable[..., Coordinator],
    gate: Gate,
    watched: Watched,
    tmp_path: pathlib.Path,
) -> None:
    team = Team(serve(), tmp_path)
    page, http = watched.page, team.coordinator.http
    first = start(*team.run("first", "sh", "-c", f"echo runs; head -c 1 <{gate} >/dev/null"))
    first.expect(r"\[0\] runs")
    second = start(*team.run("second", "echo", "started"))
    second.expect(WAITS.format("second", 1, 1))

    # A viewer's token shows it, and no form. Another launcher's token may not end it.
    viewer = tmp_path / "viewer"
    team.ask("token", "create", "--role", "viewer", "--out", str(viewer), *team.options(team.admin))
    sign_in_anew(page, http, viewer.read_text(encoding="utf-8").strip(), "#/jobs/team/second")
    expect(page.locator(".verdict")).to_contain_text("place 1 of 1 in the queue", timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Give up its place")).to_have_count(0)
    other = tmp_path / "other"
    team.ask("token", "create", "--role", "launcher", "--out", str(other), *team.options(team.admin))
    sign_in_anew(page, http, other.read_text(encoding="utf-8").strip(), "#/jobs/team/second")
    expect(page.locator(".headline")).to_contain_text("queued", timeout=PATIENCE_MS)
    expect(page.locator(".verdict")).to_contain_text(
        "place 1 of 1 in the queue: tenant team runs 1 jobs, its quota is 1"
    )
    reason, button = page.get_by_label("Reason"), page.get_by_role("button", name="Give up its place")
    button.press("Enter")
    expect(reason).to_be_focused()  # the browser asks for the reason first
    page.keyboard.type("mine now")
    page.keyboard.press("Enter")
    expect(page.locator(".give-up [role=status]")).to_contain_text("which may change its own jobs only")
    require_clean(page)
    assert team.jobs()["second"]["state"] == "queued"

    page.get_by_role("button", name="Sign out").press("Enter")
    page.wait_for_url("**/login")
    sign_in(page, http, team.launcher.read_text(encoding="utf-8").strip(), "#/jobs/team/second")
    reason.focus(timeout=PATIENCE_MS)
    page.keyboard.type("changed my mind")
    page.keyboard.press("Enter")
    second.require_end(1)
    assert "does not start: an operator ended the job: changed my mind" in second.output, second.output
    assert "started" not in second.output
    expect(page.locator("main")).to_contain_text(re.compile("There is no such thing|It has given its place up"))
    assert "second" not in team.jobs()
    told = team.ask("audit", "tail", "--json", "--state-dir", str(team.coordinator.state))
    assert "POST /api/v1/jobs/*/abort" in told and "job team/second" in told, told
    gate.let_through(1)
    first.require_end(0)
    assert not watched.problems, watched.problems
