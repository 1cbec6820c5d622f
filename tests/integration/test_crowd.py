"""The dashboard with a job of 10,240 ranks, which a real coordinator is told of: frames, bytes, and the rank that matters."""

import contextlib
import pathlib
import re
import statistics
import subprocess
from typing import Any, Dict, Iterator

import harness
import pytest
from browsers import PATIENCE_MS, Watched, browsers, picture, require_clean, require_quick, sign_in
from playwright.sync_api import Browser, Page, expect
from relay import Relay

CROWD = pathlib.Path(harness.CLI).parents[1] / "lib" / "cpp" / "crowd"
RANKS = 10_240
# Others beside it, most of which are over.
JOBS = 250
# As crowd.cc has them.
RANKS_OF_HOST = 8
SLOW = 4711
LOST = 1234
# 60 frames a second.
FRAME_MS = 1000 / 60
# The browser tells of tasks that are longer than 50 ms, by the clock on the wall: a machine whose two cores have other
# work stretches one now and then (52 ms once in 20 s, beside compilers).
MOST_TASK_MS = 100
SECONDS_BETWEEN_LONG_TASKS = 10
# Of a page that shows all ranks, each second: the bytes of the ranks, the worst of them, the verdict, and events.
MOST_BYTES_A_SECOND = 40_000
# Of its stream of events, whatever the coordinator's jobs do.
MOST_EVENT_BYTES_A_SECOND = 4000
MOST_HEAP_GROWTH_BYTES = 16 << 20

OBSERVE = """() => {
  const seen = { frames: [], tasks: [], bytes: 0 };
  window.seen = seen;
  let last = performance.now();
  const frame = (now) => { seen.frames.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask" });
  new PerformanceObserver((list) => { for (const one of list.getEntries()) seen.bytes += one.transferSize; })
    .observe({ type: "resource" });
}"""


@pytest.fixture(name="crowd")
def start_crowd() -> Iterator[subprocess.Popen]:
    """The coordinator with its crowd."""
    harness.require_cli()
    with subprocess.Popen(
        [str(CROWD), str(RANKS), str(JOBS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as crowd:
        yield crowd
        assert crowd.stdin
        crowd.stdin.close()
        crowd.wait(timeout=60)


@pytest.fixture
def browser() -> Iterator[Browser]:
    """For this module."""
    yield from browsers()


def observe(page: Page, seconds: float) -> Dict[str, Any]:
    """The page's frames, long tasks and bytes of that time."""
    page.evaluate(OBSERVE)
    page.wait_for_timeout(1000 * seconds)
    return dict(page.evaluate("window.seen"))


def heap_of(page: Page) -> int:
    """Bytes of JavaScript objects that are in use, after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return int(session.send("Runtime.getHeapUsage")["usedSize"])


@pytest.mark.alone
def test_ten_thousand_ranks_stay_smooth_and_small(
    crowd: subprocess.Popen, browser: Browser, pytestconfig: pytest.Config
) -> None:
    assert crowd.stdout and crowd.stdin
    found = re.match(r"listening on http://(\S+)/ token (\S+)", crowd.stdout.readline())
    assert found
    target, token = found.groups()
    with contextlib.closing(Relay(target)) as relay:
        watched = Watched(browser.new_context(viewport={"width": 1280, "height": 800}).new_page())
        look_at_the_crowd(watched, relay, token, crowd, pytestconfig.getoption("--crowd"))


def look_at_the_crowd(watched: Watched, relay: Relay, token: str, crowd: subprocess.Popen, seconds: float) -> None:
    """Every page through the relay, which counts the bytes of events: a SharedWorker asks for them, in which no page looks."""
    page, http = watched.page, relay.address
    sign_in(page, http, token, "#/jobs/default/crowd/ranks")
    grid = page.get_by_role("grid")
    expect(grid).to_have_attribute("aria-label", re.compile("10.240 ranks"), timeout=PATIENCE_MS)
    expect(page.locator(".verdict")).to_contain_text(f"rank {SLOW} (", timeout=PATIENCE_MS)
    first = page.get_by_role("table", name="Ranks").get_by_role("row").nth(1)
    expect(first.get_by_role("rowheader")).to_have_text(str(SLOW))
    require_clean(page)
    picture(page, "ranks")

    require_smooth(page, relay, seconds)
    require_quick(page, f"http://{http}/#/jobs/default/crowd")
    turn_pages_of_jobs(page)
    page.get_by_role("link", name="crowd", exact=True).click()
    open_a_host_behind_the_first_page(page)
    crowd.stdin.write(f"lose {LOST}\n")
    crowd.stdin.flush()
    expect(page.locator(".sentence.lost, .sentence.failed").first).to_contain_text(f"rank {LOST}", timeout=10_000)
    page.get_by_role("link", name="ranks (").click()
    reach_by_keyboard(page)
    watched.require_peace(http)


def turn_pages_of_jobs(page: Page) -> None:
    """There and back, with the place in the address; the first page has the job that needs somebody to look."""
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    rows = page.get_by_role("table", name="Jobs").get_by_role("row")
    pager = page.get_by_role("navigation", name="Pages of jobs")
    expect(pager).to_contain_text(f"1 to 100 of {JOBS + 1} jobs")
    expect(rows.nth(1)).to_contain_text("crowd")
    seen = [*rows.get_by_role("rowheader").all_inner_texts()]
    for first in (101, 201):
        pager.get_by_role("button", name="Next").click()
        expect(pager).to_contain_text(f"{first} to ")
        expect(page).to_have_url(re.compile(f"offset={first - 1}"))
        expect(rows.get_by_role("rowheader").first).not_to_have_text(seen[-100])
        seen += rows.get_by_role("rowheader").all_inner_texts()
    assert len(seen) == len(set(seen)) == JOBS + 1, f"{len(seen)} rows, {len(set(seen))} jobs"
    expect(pager.get_by_role("button", name="Next")).to_be_disabled()
    require_clean(page)
    for _ in range(2):
        pager.get_by_role("button", name="Previous").click()
    expect(pager).to_contain_text("1 to 100 of ")
    expect(pager.get_by_role("button", name="Previous")).to_be_disabled()


def require_smooth(page: Page, relay: Relay, seconds: float) -> None:
    """Watches the page for so long; fails unless frames, tasks, bytes and the heap are within their budgets."""
    before, told = heap_of(page), relay.event_bytes
    seen = observe(page, seconds)
    events_a_second = (relay.event_bytes - told) / seconds
    frames = sorted(seen["frames"])
    p95 = frames[int(0.95 * len(frames))]
    longest = max(seen["tasks"], default=0)
    a_second = seen["bytes"] / seconds
    growth = heap_of(page) - before
    print(
        f"{RANKS} ranks for {seconds} s: frames {statistics.median(frames):.1f} ms, p95 {p95:.1f} ms; "
        f"longest task {longest:.0f} ms of {len(seen['tasks'])}; {a_second:.0f} B/s, and events of {events_a_second:.0f} B/s; "
        f"heap {growth / 1024:.0f} KiB more"
    )
    assert statistics.median(frames) < 1.2 * FRAME_MS, f"{len(frames)} frames"
    assert p95 < 1.2 * FRAME_MS, p95
    assert longest <= MOST_TASK_MS, seen["tasks"]
    assert len(seen["tasks"]) <= max(1, seconds / SECONDS_BETWEEN_LONG_TASKS), seen["tasks"]
    assert a_second < MOST_BYTES_A_SECOND, a_second
    assert 0 < events_a_second < MOST_EVENT_BYTES_A_SECOND, events_a_second
    assert growth < MOST_HEAP_GROWTH_BYTES, growth


def open_a_host_behind_the_first_page(page: Page) -> None:
    """That of the slow rank, by its link in the list."""
    host = SLOW // RANKS_OF_HOST
    page.get_by_role("link", name="hosts (").click()
    for before in range(host // 100):
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("navigation", name="Pages of hosts")).to_contain_text(f"{100 * before + 101} to ")
    page.get_by_role("link", name=f"node-{host}", exact=True).click()
    expect(page.get_by_role("heading", name=f"Host node-{host}")).to_be_visible()
    ranks = page.get_by_role("table", name="Ranks").get_by_role("row")
    expect(ranks).to_have_count(1 + RANKS_OF_HOST)
    expect(ranks.filter(has=page.get_by_role("link", name=str(SLOW)))).to_contain_text(f"node-{host}")
    require_clean(page)


def reach_by_keyboard(page: Page) -> None:
    """The last rank, in two keys."""
    grid = page.get_by_role("grid")
    grid.focus()
    page.keyboard.press("PageDown")
    expect(grid.get_by_role("gridcell")).to_contain_text(f"Rank {RANKS - 1}:")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Rank {RANKS - 1}")).to_be_visible()
