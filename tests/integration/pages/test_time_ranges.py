"""Charts over time of a job, its ranks and its hosts, in a range that goes along in the address."""

import re
import signal
from typing import Callable, Tuple

from browsers import PATIENCE_MS, Watched, require_clean, sign_in, token_of
from coordinators import Coordinator
from playwright.sync_api import Page, expect
from programs_run import START_SECONDS, Program

RANGES = ("10 min", "1 h", "6 h", "3 days", "30 days", "All")
POINTS = """async address => {
  const answer = await fetch(address);
  return [answer.status, (await answer.json()).rank_history?.at_unix_ms ?? []];
}"""


# Of a job and of a host: two of them are of the network, which a rank has not.
CHARTS = 5


def require_range(page: Page, chosen: str, field: str, charts: int = CHARTS) -> None:
    """Fails unless this one is pressed, is in the address, and the page has so many charts."""
    for name in RANGES:
        button = page.get_by_role("group", name="Time range").get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-pressed", "true" if name == chosen else "false")
    expect(page).to_have_url(re.compile(f"[?&]range={field}($|&)" if field else r"#[^?]*$"))
    expect(page.locator(".chart canvas")).to_have_count(charts, timeout=PATIENCE_MS)


def ask(page: Page, query: str) -> Tuple[int, int]:
    """The status and how many points the coordinator sends."""
    status, points = page.evaluate(POINTS, f"/api/v1/jobs/ranged?tenant=default&{query}")
    return status, len(points)


def choose(page: Page, name: str) -> None:
    """By keyboard; the focus stays on the button."""
    button = page.get_by_role("button", name=name, exact=True)
    button.press("Enter")
    expect(button).to_be_focused()


def test_a_range_goes_from_the_job_to_its_ranks_and_hosts(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    run = job(2, "diagnosed", "busy", options=coordinator.options("--job", "ranged"))
    run.expect("runs", START_SECONDS)
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/ranged")
    require_range(page, "1 h", "")
    share = page.get_by_role("slider", name="Share of the time")
    share.focus()
    page.keyboard.press("Home")
    said = re.compile(r"^\d.*: waiting for ranks, mean [\d.]+ %, the rank that waits most [\d.]+ %, collectives, mean ")
    expect(share).to_have_attribute("aria-valuetext", said)
    require_clean(page)

    choose(page, "10 min")
    require_range(page, "10 min", "10m")
    page.get_by_role("link", name="ranks (2)").click()
    page.get_by_role("table", name="Ranks").get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_role("heading", name="Rank 1")).to_be_visible()
    require_range(page, "10 min", "10m", CHARTS - 2)
    require_clean(page)
    choose(page, "6 h")
    require_range(page, "6 h", "6h", CHARTS - 2)
    page.get_by_role("link", name="hosts (1)").click()
    page.get_by_role("table", name="Hosts").get_by_role("link").click()
    expect(page.get_by_role("heading", name=re.compile("^Host "))).to_be_visible()
    require_range(page, "6 h", "6h")
    traffic = page.get_by_role("slider", name="Network, MiB a second")
    traffic.focus()
    page.keyboard.press("Home")
    expect(traffic).to_have_attribute("aria-valuetext", re.compile(r"^\d.*: received [\d.]+, sent [\d.]+$"))
    require_clean(page)
    # The address is all that another browser needs; the default is not in it.
    page.reload()
    require_range(page, "6 h", "6h")
    choose(page, "1 h")
    require_range(page, "1 h", "")

    # The job that is over has them as well.
    run.signal(signal.SIGINT)
    run.end()
    page.goto(f"http://{coordinator.http}/#/jobs/default/ranged?range=10m")
    expect(page.locator(".headline")).to_contain_text("failed")
    require_range(page, "10 min", "10m")
    choose(page, "All")
    require_range(page, "All", "all")
    few, many = ask(page, "view=charts&rank=all&range=10m"), ask(page, "view=charts&rank=all&range=30d")
    assert few == many and few[0] == 200 and few[1] >= 2, (few, many)
    assert ask(page, "view=charts&rank=all&range=2h") == (400, 0)
    require_clean(page)

    # One that the coordinator does not know is refused, and another one can be chosen.
    page.goto(f"http://{coordinator.http}/#/jobs/default/ranged?range=2h")
    expect(page.get_by_role("alert")).to_contain_text("range=2h is not 10m, 1h, 6h, 3d, 30d or all")
    require_clean(page)
    choose(page, "1 h")
    require_range(page, "1 h", "")
    watched.require_peace(coordinator.http)
