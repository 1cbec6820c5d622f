"""The dashboard in a real Chromium, with real jobs that stall, are slow, or lose a worker."""

import contextlib
import os
import pathlib
import re
import signal
import sys
import time
import urllib.request
from typing import Callable, List, Tuple

from browsers import (
    PATIENCE_MS,
    Watched,
    picture,
    require_axe,
    require_clean,
    require_no_sideways,
    sign_in,
    token_of,
)
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import Browser, Locator, Page, Route, expect
from programs_run import Program
from relay import Relay

# A second, and what the machine does beside.
MOST_SECONDS_TO_RED = 1.5
RED = "rgb(164, 14, 38)"
# Notes in the page itself when the reader sees it: the coordinator, the events and the page are in it, the test is not.
SEE_RED = """() => {
  const look = () => {
    const lost = document.querySelector(".sentence.lost, .sentence.failed");
    if (window.seen_red || !lost?.textContent.includes("rank 1")) return;
    requestAnimationFrame(() => { window.seen_red ||= Date.now(); });
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
ROOT = pathlib.Path(__file__).resolve().parents[2]


def row_of(page: Page, job: str) -> Locator:
    """The job's row in the list."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=job, exact=True))


def tab(page: Page, name: str) -> None:
    """Opens a part of a job."""
    page.get_by_role("navigation", name="Parts of the job").get_by_role("link", name=name).click()


def test_a_page_that_is_refused_for_want_of_room_comes_back(
    serve: Callable[..., Coordinator], watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    asked: List[float] = []

    def refuse_twice(route: Route) -> None:
        asked.append(time.monotonic())
        if len(asked) > 2:
            route.continue_()
        else:
            route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": "there is no room"})

    page.route("**/api/v1/jobs?*", refuse_twice)
    sign_in(page, coordinator.http, token_of(coordinator))
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    # After half of what it was told at least, and not only when it asks anew for other reasons.
    gaps = [after - before for before, after in zip(asked, asked[1:3])]
    assert all(0.4 < gap < 10 for gap in gaps), gaps


def test_a_stall_is_followed_by_keyboard(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, watched: Watched
) -> None:
    coordinator = serve()
    page, token = watched.page, token_of(coordinator)
    page.goto(f"http://{coordinator.http}/")
    page.keyboard.type("wrong")  # the field has the focus
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This token is not known to the coordinator.")
    require_axe(page)
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert page.evaluate("document.cookie") == "", "scripts must not see the session"
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    expect(page.get_by_text("farandole run -np 2")).to_be_visible()
    require_axe(page)

    run = job(2, "late", gate, options=coordinator.options(), FARANDOLE_STALL_WARNING_MS="1000")
    expect(row_of(page, "late")).to_contain_text("missing is rank 1 (last submitted before", timeout=PATIENCE_MS)
    expect(row_of(page, "late")).to_contain_text("running")
    expect(page.get_by_role("status").filter(has_text="stalls")).to_contain_text("Job late stalls: tensor late")
    follow_by_keyboard(page)
    gate.let_through(1)
    run.require_end(0)
    expect(page.locator(".headline")).to_contain_text("finished")
    page.get_by_role("navigation", name="Where you are").get_by_role("link", name="Jobs").click()
    expect(row_of(page, "late")).to_contain_text("finished")
    page.get_by_role("button", name="Sign out").press("Enter")
    page.wait_for_url("**/login")
    page.goto(f"http://{coordinator.http}/")
    assert page.url.endswith("/login")
    watched.require_peace(coordinator.http)
    assert not [address for address in watched.addresses if token in address], "no token in an address"
    assert token not in coordinator.program.output, "no token in the log"


def follow_by_keyboard(page: Page) -> None:
    """From the list to the job, its grid of ranks, and one rank."""

    def go_to(target: Locator) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"Tab does not come to {target}")

    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("lat")
    expect(page).to_have_url(re.compile(r"#/\?search=lat$"))
    go_to(page.get_by_role("link", name="late", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="late", level=1)).to_be_focused()
    expect(page.locator(".verdict")).to_contain_text("missing is rank 1")
    expect(page.locator("#facts")).to_contain_text("epoch 1 formed: all 2 workers joined")
    go_to(page.get_by_role("link", name="ranks (2)"))
    page.keyboard.press("Enter")
    grid = page.get_by_role("grid")
    expect(page.get_by_role("table", name="Ranks").get_by_role("row")).to_have_count(3)
    go_to(grid)
    page.keyboard.press("ArrowRight")
    expect(grid.get_by_role("gridcell")).to_contain_text("Rank 1: live")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Rank 1")).to_be_visible()


def start_prepared(job: Callable[..., Program], coordinator: Coordinator) -> List[Program]:
    """A job whose rank 1 is slow, among balanced ones."""
    kinds = ("balanced", "busy")
    runs = [job(3, "diagnosed", kind, options=coordinator.options("--job", kind)) for kind in kinds]
    for run in runs:
        run.expect("runs")
    return runs


def test_the_slow_rank_is_on_the_first_screen_and_a_killed_worker_turns_red(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    start_prepared(job, coordinator)
    sign_in(page, coordinator.http, token_of(coordinator))
    first = page.get_by_role("table", name="Jobs").get_by_role("row").nth(1)
    expect(first).to_contain_text("busy", timeout=PATIENCE_MS)
    expect(first).to_contain_text("rank 1 (", timeout=PATIENCE_MS)
    expect(first).to_be_in_viewport(ratio=1)
    require_axe(page)
    picture(page, "jobs")

    page.get_by_role("link", name="busy", exact=True).click()
    verdict = page.locator(".verdict")
    expect(verdict.locator(".sentence").first).to_contain_text("rank 1 (")
    expect(verdict).to_contain_text("slow compute")
    expect(page.locator(".shares").first).to_contain_text("waiting for ranks")
    require_axe(page)
    picture(page, "job")
    visit_all_parts(page)

    tab(page, "ranks")
    pid = int(pid_of(page, coordinator))
    page.evaluate(SEE_RED)
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    lost = page.locator(".sentence.lost, .sentence.failed").first
    expect(lost).to_contain_text("rank 1", timeout=10_000)
    red = lost.evaluate("element => getComputedStyle(element).color")
    assert red == RED, red
    took = page.evaluate("window.seen_red") / 1000 - killed
    print(f"a killed worker was red after {took:.2f} s")
    assert took < MOST_SECONDS_TO_RED, took
    expect(page.locator(".headline")).to_contain_text("failed")
    expect(page.get_by_role("table", name="Ranks")).to_contain_text("lost")
    require_axe(page)
    watched.require_peace(coordinator.http)


def pid_of(page: Page, coordinator: Coordinator) -> str:
    """Of the job's rank 1."""
    address = f"http://{coordinator.http}/api/v1/jobs/busy?view=rank&rank=1"
    return str(page.evaluate("async address => (await (await fetch(address)).json()).worker.pid", address))


def visit_all_parts(page: Page) -> None:
    """Each is clean for axe, and fits from a desktop's window down to a phone's."""
    job_address = page.url
    for name, mark in (
        ("ranks", "that the others wait for longest"),
        ("hosts", "Retransmits"),
        ("collectives", "gradient"),
        ("metrics", "7 curves"),
        ("checkpoints", "No checkpoint yet."),
        ("history", "epoch 1 formed"),
    ):
        tab(page, name)
        expect(page.locator("main")).to_contain_text(mark)
        require_clean(page)
    read_metrics(page)
    tab(page, "hosts")
    page.get_by_role("table", name="Hosts").get_by_role("link").click()
    expect(page.get_by_role("heading", name=re.compile("^Host "))).to_be_visible()
    expect(page.get_by_role("table", name="Ranks").get_by_role("row")).to_have_count(1 + 3)
    require_clean(page)
    page.goto(job_address + "/rank/1")
    expect(page.locator("main")).to_contain_text("missed alone")
    expect(page.locator(".chart canvas")).to_have_count(3, timeout=PATIENCE_MS)
    require_axe(page)
    page.set_viewport_size({"width": 360, "height": 740})
    require_no_sideways(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("link", name="Coordinator").click()
    expect(page.locator("main")).to_contain_text("99 % of decisions in")
    require_axe(page)
    page.goto(job_address)


def read_metrics(page: Page) -> None:
    """By the mouse, by the keyboard as a screen reader says it, and by the download."""
    tab(page, "metrics")
    expect(page.locator(".chart canvas")).to_have_count(3)
    loss, samples = page.get_by_role("slider", name="loss"), page.get_by_role("slider", name="samples")
    expect(loss).to_have_attribute("aria-valuetext", re.compile("now average 0"))
    page.keyboard.press("Tab")
    loss.focus()
    page.keyboard.press("Home")
    expect(loss).to_have_attribute("aria-valuetext", re.compile(r"^step \d+: average \d"))
    samples.hover()
    expect(page.locator(".chart").nth(1).locator(".reading")).to_have_text(
        re.compile(r"^step \d+: rank 0 32, rank 1 33, rank 2 34$")
    )
    with page.expect_download() as download:
        page.get_by_role("link", name="all points as CSV").click()
    text = pathlib.Path(download.value.path()).read_text(encoding="utf-8")
    assert download.value.suggested_filename == "busy.csv" and text.startswith("name,rank,first_step"), text[:99]


def test_gpus_are_shown_where_workers_tell_of_them(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, watched: Watched
) -> None:
    """No machine of the tests has GPUs: what the coordinator says of them is added to its answers."""
    coordinator = serve()
    page = watched.page
    gpu = {"name": "NVIDIA H100", "busy_percent": 73, "memory_used_bytes": 41 << 30, "memory_total_bytes": 80 << 30}

    def add(route: Route) -> None:
        response = route.fetch()
        if "view=ranks" in route.request.url:
            route.fulfill(response=response)
            return
        shown = response.json()
        shown["gpus"] = {**gpu, "gpus": 1, "busy_percent": 72.6}
        for worker in shown["workers"][1:2] if isinstance(shown.get("workers"), list) else []:
            worker["gpu"] = gpu
        route.fulfill(response=response, json=shown)

    run = job(2, "late", gate, options=coordinator.options())
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/late/ranks?order=rank")
    ranks = page.get_by_role("table", name="Ranks")
    expect(ranks).to_contain_text("live", timeout=PATIENCE_MS)
    expect(ranks.get_by_role("columnheader", name="GPU")).to_have_count(0)
    page.route("**/api/v1/jobs/*", add)
    expect(ranks.get_by_role("row").nth(2)).to_contain_text("73 % busy, 41.0 GiB")
    tab(page, "overview")
    expect(page.locator("#facts")).to_contain_text("1: 73 % busy, 41.0 GiB of 80.0 GiB")
    gate.let_through(1)
    run.require_end(0)


def test_what_is_seen_without_a_connection_and_after_it(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, browser: Browser
) -> None:
    """Seven pages of one browser, a proxy that is cut and mended, and a sign-out, which ends all of them."""
    coordinator = serve()
    job(2, "late", gate, options=coordinator.options())
    with contextlib.closing(Relay(coordinator.http)) as relay:
        context = browser.new_context(locale="en-GB")
        pages = [context.new_page() for _ in range(7)]
        sign_in(pages[0], relay.address, token_of(coordinator), "#/jobs/default/late")
        for page in pages[1:]:
            page.goto(f"http://{relay.address}/#/jobs/default/late")
        for page in pages:
            expect(page.locator(".connection")).to_have_text("● live", timeout=PATIENCE_MS)
            expect(page.locator(".headline")).to_contain_text("running", timeout=PATIENCE_MS)
        relay.cut()
        for page in pages:
            expect(page.locator(".connection")).to_contain_text("disconnected for", timeout=PATIENCE_MS)
            expect(page.locator(".headline")).to_contain_text("running")  # as it knew it
        require_axe(pages[0])
        gate.let_through(1)
        relay.mend()
        for page in pages:
            expect(page.locator(".connection")).to_have_text("● live", timeout=PATIENCE_MS)
            expect(page.locator(".headline")).to_contain_text("finished")
        pages[0].get_by_role("button", name="Sign out").click()
        for page in pages:
            expect(page).to_have_url(re.compile("/login"), timeout=PATIENCE_MS)
        context.close()


def test_a_page_left_open_over_a_restart_comes_back_to_its_place(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, watched: Watched
) -> None:
    """The coordinator knows no session of before; the job's workers are known again."""
    coordinator = serve()
    page, place = watched.page, "#/jobs/default/late"
    run = job(2, "late", gate, options=coordinator.options())
    sign_in(page, coordinator.http, token_of(coordinator), place)
    headline, connection = page.locator(".headline"), page.locator(".connection")
    expect(headline).to_contain_text("running", timeout=PATIENCE_MS)
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()
    expect(connection).to_contain_text(re.compile("reconnecting|disconnected"))
    expect(headline).to_contain_text("running")  # as it knew it
    again = serve(coordinator)
    assert again.http == coordinator.http
    expect(page).to_have_url(re.compile(f"/login{place}$"))
    page.keyboard.type(token_of(again))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/{place}$"))
    expect(connection).to_have_text("● live")
    expect(headline).to_contain_text("running")
    gate.let_through(1)
    run.require_end(0)
    expect(headline).to_contain_text("finished")
    watched.require_peace(coordinator.http)


def test_a_tenants_page_says_what_its_token_does_not_show(
    serve: Callable[..., Coordinator], start: Callable[..., Program], watched: Watched
) -> None:
    coordinator = serve()
    token, other = tenants(coordinator, start)
    page = watched.page
    sign_in(page, coordinator.http, token, "#/coordinator")
    expect(page.get_by_role("alert")).to_contain_text("No rights")
    require_axe(page)
    page.goto(f"http://{coordinator.http}/#/jobs/{other}/theirs")
    expect(page.get_by_role("alert")).to_contain_text("No rights")
    page.goto(f"http://{coordinator.http}/#/jobs/mine/nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no such thing")
    page.goto(f"http://{coordinator.http}/#/nowhere")
    expect(page.locator("main")).to_contain_text("There is no page at #/nowhere")
    watched.require_peace(coordinator.http)


MAKE_TENANTS = """
import sys
from farandole.client import Client
client = Client(sys.argv[1], open(sys.argv[2]).read().strip())
print("token", client.create_tenant("mine"))
client.create_tenant("others")
"""


def tenants(coordinator: Coordinator, start: Callable[..., Program]) -> Tuple[str, str]:
    """The token of a new tenant "mine", and the name of another tenant."""
    made = start(sys.executable, "-c", MAKE_TENANTS, coordinator.address, coordinator.token_file)
    return made.expect(r"token (\S+)").group(1), "others"


def test_a_kept_demo_stays_to_be_looked_at(start: Callable[..., Program]) -> None:
    program = "import farandole.numpy as hvd; hvd.init(); hvd.barrier(); print('trained')"
    demo = start(str(ROOT / "tools" / "demo"), "--keep", sys.executable, "-c", program)
    http = demo.expect(r"dashboard at http://(\S+)/, token in \S+").group(1)
    demo.expect(r"the job has ended with code 0; the dashboard stays at")
    with urllib.request.urlopen(f"http://{http}/healthz", timeout=30) as response:
        assert response.status == 200
    os.kill(demo.pid, signal.SIGTERM)
    demo.require_end(0)
