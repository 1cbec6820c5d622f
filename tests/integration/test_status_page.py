"""The status page in a real browser, with a job that stalls and then goes on."""

import pathlib
import re
from typing import Callable, Iterator, List

import pytest
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import ConsoleMessage, Page, Route, expect, sync_playwright
from programs_run import START_SECONDS, Program

CHROMIUM = "/usr/bin/chromium"
# Of the whole job, of which importing the program's libraries is most.
PATIENCE_MS = START_SECONDS * 1000


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a browser that sees no other network than this machine's loopback."""
    with sync_playwright() as playwright:
        # Root, as in a container, has no sandbox.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        made = browser.new_page(color_scheme="light", locale="en-GB")
        made.set_default_timeout(PATIENCE_MS)
        yield made
        browser.close()


def luminance(color: str) -> float:
    """Of `rgb(r, g, b)`, as WCAG 2 defines it."""
    channels = [int(number) / 255 for number in re.findall(r"\d+", color)[:3]]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def require_contrast(page: Page, selector: str) -> str:
    """Fails unless the text can be read on the page's background (WCAG 2, AA); returns the background."""
    text = page.eval_on_selector(selector, "element => getComputedStyle(element).color")
    background = page.eval_on_selector("body", "element => getComputedStyle(element).backgroundColor")
    high, low = sorted((luminance(text), luminance(background)), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5, f"{selector}: {text} on {background}"
    return background


def sign_in(page: Page, coordinator: Coordinator, token: str) -> None:
    """By keyboard, after a token that is not known."""
    page.goto(f"http://{coordinator.http}/")
    assert page.url.endswith("/login")
    page.keyboard.type("wrong")  # the field has the focus
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This token is not known to the coordinator.")
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


def test_a_stall_is_followed_in_a_browser(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, page: Page
) -> None:
    coordinator = serve()
    token = pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()
    problems: List[str] = []
    addresses: List[str] = []

    def note(message: ConsoleMessage) -> None:
        # The browser itself tells of the refused sign-in.
        if message.type == "error" and "401" not in message.text:
            problems.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: addresses.append(request.url))
    sign_in(page, coordinator, token)
    assert page.evaluate("document.cookie") == "", "scripts must not see the session"
    expect(page.get_by_text("No jobs yet.")).to_be_visible()

    run = job(2, "late", gate, options=coordinator.options(), FARANDOLE_STALL_WARNING_MS="1000")
    row = page.locator("#jobs tbody tr")
    expect(row).to_contain_text("missing is rank 1 (last submitted before", timeout=PATIENCE_MS)
    expect(row.get_by_role("cell").nth(0)).to_have_text("running")
    expect(page.get_by_role("status")).to_contain_text("Job late stalls: tensor late")
    follow_by_keyboard(page)
    backgrounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        backgrounds.add(require_contrast(page, "body"))
        for selector in ("#jobs td.running", "#jobs td.stalled", "#jobs th", "#jobs a", "#freshness"):
            require_contrast(page, selector)
    assert len(backgrounds) == 2

    gate.let_through(1)
    run.require_end(0)
    expect(row.get_by_role("cell").nth(0)).to_have_text("finished")
    expect(page.get_by_role("status")).to_contain_text("Job late is finished")
    expect(page.locator("#ranks tbody")).to_contain_text("left")
    page.get_by_role("button", name="Sign out").press("Enter")
    page.wait_for_url("**/login")
    page.goto(f"http://{coordinator.http}/")
    assert page.url.endswith("/login")
    assert not problems
    assert not [address for address in addresses if token in address], "no token in an address"
    assert token not in coordinator.program.output, "no token in the log"


def test_gpus_are_shown_where_workers_tell_of_them(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, page: Page
) -> None:
    """No machine of the tests has GPUs: what the coordinator says of them is added to its answers."""
    coordinator = serve()
    gpu = {"name": "NVIDIA H100", "busy_percent": 73, "memory_used_bytes": 41 << 30, "memory_total_bytes": 80 << 30}

    def add(route: Route) -> None:
        response = route.fetch()
        shown = response.json()
        shown["gpus"] = {**gpu, "gpus": 1, "busy_percent": 72.6}
        shown["workers"][1]["gpu"] = gpu
        route.fulfill(response=response, json=shown)

    run = job(2, "late", gate, options=coordinator.options())
    sign_in(page, coordinator, pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip())
    ranks = page.locator("#ranks")
    expect(ranks).to_contain_text("live", timeout=PATIENCE_MS)
    expect(ranks.get_by_role("columnheader", name="GPU")).to_be_hidden()
    page.route("**/api/v1/jobs/*", add)
    expect(page.locator("#facts")).to_contain_text("1: 73 % busy, 41.0 of 80.0 GiB")
    expect(ranks.locator("tbody tr").nth(1)).to_contain_text("73 % busy, 41.0 of 80.0 GiB")
    expect(ranks.get_by_title("NVIDIA H100")).to_be_visible()
    gate.let_through(1)
    run.require_end(0)


def follow_by_keyboard(page: Page) -> None:
    """From the list to the job and its ranks."""
    link = page.get_by_role("link", name="late")
    for _ in range(10):
        page.keyboard.press("Tab")
        if link.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Job late")).to_be_focused()
    ranks = page.get_by_role("table").nth(1).locator("tbody tr")
    expect(ranks).to_have_count(2)
    for rank in range(2):
        expect(ranks.nth(rank).get_by_role("rowheader")).to_have_text(str(rank))
        expect(ranks.nth(rank)).to_contain_text("live")
    expect(page.locator("#facts")).to_contain_text("epoch 1 formed: all 2 workers joined")
    expect(page.locator("#history")).to_contain_text("epoch 1 formed")
