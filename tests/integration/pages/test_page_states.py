"""States of a page that has nothing to show, each for itself: loading, empty, no answer, a refusal, a connection that is made
anew; and the end of its token."""

import contextlib
import json
import pathlib
import re
import subprocess
from typing import Callable, List

import harness
from browsers import PATIENCE_MS, Watched, make_token, require_clean, sign_in, sign_in_anew, token_of
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import Route, expect
from programs_run import Program
from relay import Relay

HANGING = harness.ROOT / ".venv" / "lib" / "cpp" / "hanging"
LIST = "**/api/v1/jobs?*"


def test_loading_no_answer_and_a_refusal_are_told_apart(serve: Callable[..., Coordinator], watched: Watched) -> None:
    coordinator = serve()
    page = watched.page
    sign_in(page, coordinator.http, token_of(coordinator), "#/queue")
    expect(page.get_by_text("No launch waits.")).to_be_visible()
    held: List[Route] = []
    is_away = False

    def answer(route: Route) -> None:
        if is_away:
            route.abort()
        else:
            held.append(route)

    page.route(LIST, answer)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    expect(page.locator("main .loading")).to_have_text("Loading")
    expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(1)
    require_clean(page)

    # There is no earlier answer to show.
    alert = page.get_by_role("alert")
    is_away = True
    for route in held:
        route.abort()
    expect(alert).to_contain_text("The coordinator does not answer")
    expect(alert).to_contain_text("The page asks again by itself.")
    expect(page.locator("main .loading")).to_have_count(0)
    require_clean(page)
    page.unroute(LIST)
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    expect(alert).to_have_count(0)

    page.route(LIST, lambda route: route.fulfill(status=500, json={"error": "its disk is <b>full</b>"}))
    page.get_by_role("searchbox").fill("mnist")
    expect(alert).to_contain_text("The coordinator refused")
    expect(alert).to_contain_text("its disk is <b>full</b>")
    require_clean(page)
    page.unroute(LIST)
    page.get_by_role("searchbox").fill("mnis")
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    watched.require_peace(coordinator.http)


def test_a_short_break_says_reconnecting_and_keeps_what_is_shown(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    job(2, "late", gate, options=coordinator.options())
    with contextlib.closing(Relay(coordinator.http)) as relay:
        sign_in(page, relay.address, token_of(coordinator), "#/jobs/default/late")
        connection, headline = page.locator(".connection"), page.locator(".headline")
        expect(connection).to_have_text("● live")
        expect(headline).to_contain_text("running", timeout=PATIENCE_MS)
        expect(page.locator("main .loading")).to_have_count(0)
        relay.cut()
        expect(connection).to_have_text("○ reconnecting")
        expect(headline).to_contain_text("running")
        expect(page.get_by_role("alert")).to_have_count(0)
        relay.mend()
        expect(connection).to_have_text("● live")
        # Its session is the same.
        assert "/login" not in page.url
        expect(headline).to_contain_text("running")


def test_a_job_that_forms_says_which_command_tells_more(
    start: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    start(
        str(HANGING),
        FARANDOLE_COORDINATOR=coordinator.address,
        FARANDOLE_TOKEN_FILE=coordinator.token_file,
        FARANDOLE_JOB="forming",
        FARANDOLE_SIZE="2",
        FARANDOLE_LAUNCH_INDEX="0",
    )
    sign_in(page, coordinator.http, token_of(coordinator))
    page.get_by_role("link", name="forming", exact=True).click(timeout=PATIENCE_MS)
    for part, title in (("ranks", "No rank yet."), ("hosts", "No host takes part.")):
        page.get_by_role("navigation", name="Parts of the job").get_by_role("link", name=part).click()
        empty = page.locator(".empty")
        expect(empty).to_contain_text(title)
        expect(empty.locator(".command")).to_have_text("farandole job show forming")
        require_clean(page)
    watched.require_peace(coordinator.http)


def test_a_page_whose_token_is_revoked_goes_to_the_sign_in_by_itself(
    serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page = watched.page
    sign_in_anew(page, coordinator.http, make_token(coordinator, "viewer", tmp_path))
    expect(page.locator(".connection")).to_have_text("● live")
    listed = subprocess.check_output([str(harness.CLI), "token", "list", "--json", *coordinator.options()], timeout=60)
    revoked = next(one["id"] for one in json.loads(listed) if one["role"] == "viewer")
    subprocess.check_call([str(harness.CLI), "token", "revoke", revoked, *coordinator.options()], timeout=60)
    expect(page).to_have_url(re.compile("/login"))
    page.goto(f"http://{coordinator.http}/")
    expect(page).to_have_url(re.compile("/login"))
    watched.require_peace(coordinator.http)
