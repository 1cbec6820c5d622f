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

import harness
from browsers import (
    PATIENCE_MS,
    Watched,
    picture,
    require_clean,
    require_quick,
    sign_in,
    token_of,
)
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import Browser, Locator, Page, Route, expect
from programs_run import Program
from relay import Relay

# Of the median of three.
MOST_SECONDS_TO_RED = 1.0
# Of somebody who has never seen the page, from the list of jobs to the slow rank.
MOST_SECONDS_TO_RANK = 15
RED = "rgb(164, 14, 38)"
REASON = re.compile(r"rank 1 \(pid \d+ on \S+\) was lost: .*its process ")
# Notes in the page itself when the reader sees it: the coordinator, the events and the page are in it, the test is not.
SEE_RED = """reason => {
  window.seen_red = 0;
  const look = () => {
    const lost = [...document.querySelectorAll(".sentence.lost, .sentence.failed")];
    if (window.seen_red || !lost.some((one) => new RegExp(reason).test(one.textContent))) return;
    requestAnimationFrame(() => { window.seen_red ||= Date.now(); });
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
# Beside the prepared jobs there are so many that run, of one rank that does nothing, and so many that are over.
IDLE = 12
OVER = 5
OTHERS = """
for number in $(seq $1); do "$5" run -np 1 --job "idle-$number" "${@:6}" "$3/hanging" & done
for number in $(seq $2); do "$5" run -np 1 --job "over-$number" "${@:6}" "$3/stepping" "$4" & done
wait
"""
PROGRAMS = harness.ROOT / ".venv" / "lib" / "cpp"
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
    require_clean(page)
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert page.evaluate("document.cookie") == "", "scripts must not see the session"
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    expect(page.get_by_text("farandole run -np 2")).to_be_visible()
    require_clean(page)

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


def start_prepared(
    job: Callable[..., Program], start: Callable[..., Program], coordinator: Coordinator, directory: pathlib.Path
) -> List[Program]:
    """Twenty jobs; of one of them rank 1 is slow."""
    (directory / "stop").touch()
    words = (str(IDLE), str(OVER), str(PROGRAMS), str(directory), str(harness.CLI))
    start("bash", "-c", OTHERS, "bash", *words, *coordinator.options())
    kinds = {"steady": "balanced", "balanced": "balanced", "busy": "busy"}
    runs = [job(3, "diagnosed", kind, options=coordinator.options("--job", name)) for name, kind in kinds.items()]
    for run in runs:
        run.expect("runs")
    return runs


def find_the_slow_rank(page: Page) -> None:
    """By what the screen says, and nothing else: the first row names a rank, its link leads to a verdict, and the verdict's
    link to the rank."""
    begin = time.monotonic()
    first = page.get_by_role("table", name="Jobs").get_by_role("row").nth(1)
    named = re.search(r"rank (\d+) \(", first.inner_text())
    assert named, first.inner_text()
    first.get_by_role("link").click()
    page.locator(".verdict").get_by_role("link", name=f"rank {named.group(1)}", exact=True).click()
    expect(page.get_by_role("heading", name=f"Rank {named.group(1)}")).to_be_visible()
    expect(page.locator(".tiles")).to_contain_text(re.compile(r"over its own0\.\d+: slow"))
    took = time.monotonic() - begin
    print(f"the slow rank was found in {took:.2f} s")
    assert took < MOST_SECONDS_TO_RANK, took


def test_the_slow_rank_is_on_the_first_screen_and_a_killed_worker_turns_red(
    job: Callable[..., Program],
    start: Callable[..., Program],
    serve: Callable[..., Coordinator],
    watched: Watched,
    tmp_path: pathlib.Path,
) -> None:
    coordinator = serve()
    page = watched.page
    start_prepared(job, start, coordinator, tmp_path)
    sign_in(page, coordinator.http, token_of(coordinator))
    rows = page.get_by_role("table", name="Jobs").get_by_role("row")
    expect(rows).to_have_count(1 + 3 + IDLE + OVER, timeout=PATIENCE_MS)
    expect(rows.nth(1)).to_contain_text("busy", timeout=PATIENCE_MS)
    expect(rows.nth(1)).to_contain_text("rank 1 (", timeout=PATIENCE_MS)
    assert page.evaluate("scrollY") == 0
    expect(rows.nth(1)).to_be_in_viewport(ratio=1)
    for rate in ("Steps/s", "Collectives/s"):
        expect(rows.nth(1).locator(f"[data-name='{rate}']")).to_have_text(re.compile(r"^ *[1-9]\d*\.\d$"))
    expect(rows.nth(1).locator(".spark polyline")).to_be_visible()
    require_clean(page)
    picture(page, "jobs")
    choose_states(page)
    choose_themes(page)
    find_the_slow_rank(page)
    address = f"http://{coordinator.http}/#/jobs/default/busy"
    require_quick(page, address)

    page.goto(address)
    verdict = page.locator(".verdict")
    expect(verdict.locator(".sentence").first).to_contain_text("rank 1 (")
    expect(verdict).to_contain_text("slow compute")
    expect(page.locator(".shares").first).to_contain_text("waiting for ranks")
    expect(page.locator(".span").first).to_contain_text(
        re.compile(r"steps\): \d\.\d\d times as long as if no rank waited")
    )
    require_clean(page)
    picture(page, "job")
    visit_all_parts(page)

    took = sorted(seconds_to_red(page, coordinator, one) for one in ("busy", "steady", "balanced"))
    print(f"killed workers were red after {', '.join(f'{one:.2f}' for one in took)} s")
    assert took[1] < MOST_SECONDS_TO_RED, took
    require_clean(page)
    watched.require_peace(coordinator.http)


def choose_states(page: Page) -> None:
    """The buttons choose states, alone and together; the choice is in the address."""
    rows = page.get_by_role("table", name="Jobs").get_by_role("row")
    states = page.get_by_role("group", name="States")
    finished, failed = (states.get_by_role("button", name=re.compile(one)) for one in ("finished", "failed"))
    finished.press("Enter")
    expect(rows).to_have_count(1 + OVER)
    expect(finished).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile(r"#/\?state=finished$"))
    expect(finished).to_contain_text(str(OVER))
    page.reload()
    expect(rows).to_have_count(1 + OVER)
    finished.press("Enter")
    failed.press("Enter")
    expect(page.get_by_text("No job fits.")).to_be_visible()
    require_clean(page)
    page.get_by_role("button", name="Show all").press("Enter")
    expect(rows).to_have_count(1 + 3 + IDLE + OVER)


def choose_themes(page: Page) -> None:
    """The button goes round; the choice is kept, and wins over the system's."""
    button = page.get_by_role("button", name=re.compile("^Theme: "))
    papers = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}
    for system in ("dark", "light"):
        page.emulate_media(color_scheme=system)
        for theme in ("light", "dark", "auto"):
            button.press("Enter")
            expect(button).to_have_text(f"Theme: {theme}")
            expect(page.locator("body")).to_have_css("background-color", papers[system if theme == "auto" else theme])
    button.press("Enter")
    button.press("Enter")
    page.reload()
    expect(button).to_have_text("Theme: dark")
    expect(page.locator("body")).to_have_css("background-color", papers["dark"])
    button.press("Enter")
    expect(button).to_have_text("Theme: auto")


def seconds_to_red(page: Page, coordinator: Coordinator, name: str) -> float:
    """From a kill of the job's rank 1 until its page says so in red, with the reason."""
    page.goto(f"http://{coordinator.http}/#/jobs/default/{name}/ranks")
    expect(page.locator(".headline")).to_contain_text("running")
    expect(page.get_by_role("table", name="Ranks")).to_contain_text("live")
    pid = int(pid_of(page, coordinator, name))
    page.evaluate(SEE_RED, REASON.pattern)
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    lost = page.locator(".sentence.lost, .sentence.failed").filter(has_text=REASON).first
    expect(lost).to_be_visible(timeout=10_000)
    expect(lost).to_have_css("color", RED)
    took = page.evaluate("window.seen_red") / 1000 - killed
    expect(page.locator(".headline")).to_contain_text("failed")
    expect(page.get_by_role("table", name="Ranks")).to_contain_text("lost")
    return float(took)


def pid_of(page: Page, coordinator: Coordinator, name: str) -> str:
    """Of the job's rank 1."""
    address = f"http://{coordinator.http}/api/v1/jobs/{name}?view=rank&rank=1"
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
    require_clean(page)
    page.get_by_role("link", name="Coordinator").click()
    expect(page.locator("main")).to_contain_text("99 % of decisions in")
    require_clean(page)
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

    columns = ("waited", "most_waited", "transfer", "most_transfer", "cpu", "steps")
    history = {**dict.fromkeys(columns, [100] * 3), "gpu": [730, -1, 740], "gpu_memory": [510] * 3, "sections": []}
    history["at_unix_ms"] = [1000 * (int(time.time()) - ago) for ago in (30, 20, 10)]

    def add(route: Route) -> None:
        response = route.fetch()
        if "view=ranks" in route.request.url:
            route.fulfill(response=response)
            return
        shown = response.json()
        if "view=charts" in route.request.url:
            shown["rank_history"] = history
            route.fulfill(response=response, json=shown)
            return
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
    chart = page.get_by_role("slider", name="GPU")
    chart.focus()
    page.keyboard.press("End")
    expect(chart).to_have_attribute("aria-valuetext", re.compile("busy 74 %, memory in use 51 %"))
    page.keyboard.press("ArrowLeft")
    expect(chart).to_have_attribute("aria-valuetext", re.compile("busy – %, memory in use 51 %"))
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
        require_clean(pages[0])
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
    require_clean(page)
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
