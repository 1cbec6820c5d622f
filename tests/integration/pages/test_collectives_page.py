"""The page of a job's tensors, with real jobs: which costs time, who came last to it, order and search in the address."""

import pathlib
import re
import time
from typing import Callable

from browsers import PATIENCE_MS, Watched, require_clean, sign_in, token_of
from coordinators import Coordinator
from playwright.sync_api import Page, Route, expect
from programs_run import START_SECONDS, Program

WORKERS = 3
SURVEYS = "**/api/v1/jobs/*/collectives*"


def test_the_page_names_the_late_tensor_and_orders_by_what_the_reader_chooses(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page = watched.page
    run = job(WORKERS, "tensors", tmp_path, options=coordinator.options("--job", "net"))
    run.expect("steps", START_SECONDS)
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/net/collectives")
    table = page.get_by_role("table", name="Tensors")
    late = table.get_by_role("row").filter(has_text="late")
    expect(late.locator("[data-name='Came last']")).to_have_text(
        re.compile(r"rank 2 in \d+ of \d+"), timeout=PATIENCE_MS
    )
    expect(page.locator("main")).to_contain_text("3 of 3 ranks answered")
    expect(page.get_by_role("heading", name="Where the ranks are")).to_be_visible()
    require_clean(page)

    # By keyboard; the choice is in the address.
    size = table.get_by_role("button", name="Size")
    size.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/collectives\?order=bytes$"))
    expect(table.get_by_role("columnheader", name="Size")).to_have_attribute("aria-sort", "descending")
    first = table.get_by_role("row").nth(1)
    expect(first).to_contain_text("large")
    expect(first.locator("[data-name='Bus bandwidth']")).to_have_text(re.compile(r"\d (M|G)iB/s$"))
    expect(first.locator("[data-name='Size']")).to_have_text("4.0 MiB")
    page.get_by_role("searchbox", name="Search tensors").fill("LAT")
    expect(table.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("order=bytes&tensor=LAT$"))
    page.get_by_role("searchbox", name="Search tensors").fill("nothing")
    expect(page.locator("main")).to_contain_text("No tensor has such a name.")
    page.reload()
    expect(page.locator("main")).to_contain_text("No tensor has such a name.", timeout=PATIENCE_MS)
    page.get_by_role("searchbox", name="Search tensors").fill("")
    check_that_it_goes_on(page)

    # When the job is over, the last answer stays.
    (tmp_path / "stop").touch()
    run.require_end(0)
    expect(page.locator("main")).to_contain_text("when they were asked last", timeout=PATIENCE_MS)
    expect(late).to_contain_text("rank 2")
    require_clean(page)
    watched.require_peace(coordinator.http)


def check_that_it_goes_on(page: Page) -> None:
    """It asks again while it can be seen, every five seconds; once more when it begins to follow the events."""
    for _ in range(2):
        with page.expect_request(SURVEYS):
            pass
    began = time.monotonic()
    with page.expect_request(SURVEYS):
        pass
    # Less what the one before was late to be heard of.
    assert time.monotonic() - began > 4.5


def answering(status: int, body: str) -> Callable[[Route], None]:
    """Gives this in the place of the coordinator's answer."""
    return lambda route: route.fulfill(status=status, body=body, content_type="application/json")


def test_each_state_is_shown(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    """Nobody has looked while it ran; no collective yet; no rights; the coordinator is away."""
    coordinator = serve()
    page = watched.page
    (tmp_path / "stop").touch()
    job(1, "tensors", tmp_path, options=coordinator.options("--job", "brief")).require_end(0)
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/brief/collectives")
    expect(page.locator("main")).to_contain_text("Nothing is known of this job's tensors.", timeout=PATIENCE_MS)
    expect(page.locator("main")).to_contain_text("farandole collectives brief")
    require_clean(page)

    answers = {
        "No collective was measured yet.": (200, EMPTY),
        "No rights": (403, '{"error": "the token does not show this"}'),
    }
    for said, (status, body) in answers.items():
        page.route(SURVEYS, answering(status, body))
        page.reload()
        expect(page.locator("main")).to_contain_text(said, timeout=PATIENCE_MS)
        require_clean(page)
        page.unroute(SURVEYS)
    assert not watched.problems, watched.problems


EMPTY = (
    '{"state": "asked", "at_unix_ms": 1, "epoch": 1, "size": 2, "answered": 1, "asked_unix_ms": 1, "found": 0,'
    ' "left_out": 0, "waited_ms": 0, "moving_ms": 0, "collectives": [],'
    ' "silent": [{"ranks": "rank 1", "why": "it is stopped"}]}'
)
