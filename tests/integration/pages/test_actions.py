"""Buttons of a job's page: stacks now, and timelines; with rights, confirmation, and lines in the audit log."""

import json
import pathlib
import re
import signal
from typing import Any, Callable, List

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
from playwright.sync_api import Page, expect
from programs_run import START_SECONDS, Program


def events_of(page: Page, directory: pathlib.Path) -> List[Any]:
    """The events of the timeline that the page's link gives."""
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the timeline").click()
    assert download.value.suggested_filename == "steady-timeline.json"
    download.value.save_as(directory / "timeline.json")
    found: List[Any] = json.loads((directory / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
    return found


def test_stacks_and_timelines_are_for_those_who_may_and_are_audited(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page = watched.page
    run = job(2, "diagnosed", "balanced", options=coordinator.options("--job", "steady"))
    run.expect("runs", START_SECONDS)
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/steady")
    closer = page.get_by_role("region", name="Look closer")
    expect(closer).to_contain_text("no timeline was recorded", timeout=PATIENCE_MS)
    start = closer.get_by_role("button", name="Start a timeline", exact=True)
    sure = closer.get_by_role("button", name="Yes: start a timeline")
    confirm_by_keys(coordinator, start, sure, "2 workers will send the coordinator all their events")
    expect(closer.get_by_role("status").last).to_have_text("timeline 1 of job steady begins.")
    expect(closer).to_contain_text("timeline 1 records since")
    # The link gives the events so far, and later all of them.
    first = events_of(page, tmp_path)
    stop = closer.get_by_role("button", name="Stop the timeline", exact=True)
    sure = closer.get_by_role("button", name="Yes: stop the timeline")
    confirm_by_keys(coordinator, stop, sure, "The workers will send their last events, and record no more.")
    expect(closer).to_contain_text("and has ended")
    events = events_of(page, tmp_path)
    assert len(events) > len(first), (len(first), len(events))
    assert {event["pid"] for event in events} == {0, 1}, events[:3]
    assert any("gradient" in json.dumps(event) for event in events)
    require_clean(page)

    stacks = closer.get_by_role("button", name="Stacks now", exact=True)
    sure = closer.get_by_role("button", name="Yes: stacks now")
    confirm_by_keys(coordinator, stacks, sure, "Each thread of the ranks is stopped for a moment")
    expect(page).to_have_url(re.compile("#/jobs/default/steady/hang$"))
    expect(page.locator("main")).to_contain_text("As the ranks said when you asked")
    expect(page.locator(".stack").first).to_contain_text("diagnosed.py:")
    target = "job default/steady"
    timeline = ("POST /api/v1/jobs/*/timeline", target)
    assert audited(coordinator) == [timeline, timeline, ("POST /api/v1/jobs/*/stacks", target)]

    check_a_viewer(coordinator, page, tmp_path)
    run.signal(signal.SIGINT)
    run.end()
    expect(closer.get_by_role("button")).to_have_count(0)
    watched.require_peace(coordinator.http)


def check_a_viewer(coordinator: Coordinator, page: Page, directory: pathlib.Path) -> None:
    """Reads the timeline and the stacks, and may not start or stop a timeline."""
    sign_in_anew(page, coordinator.http, make_token(coordinator, "viewer", directory), "#/jobs/default/steady")
    closer = page.get_by_role("region", name="Look closer")
    expect(closer).to_contain_text("your token may not start or stop one")
    expect(closer.get_by_role("button", name=re.compile("timeline"))).to_have_count(0)
    expect(closer.get_by_role("link", name="Download the timeline")).to_be_visible()
    expect(closer.get_by_role("button", name="Stacks now")).to_be_visible()
    asked = "async path => (await fetch(path, {method: 'POST'})).status"
    assert page.evaluate(asked, "/api/v1/jobs/steady/timeline?tenant=default&record=on") == 403
    assert page.evaluate(asked, "/api/v1/jobs/steady/stacks?tenant=other") == 403
