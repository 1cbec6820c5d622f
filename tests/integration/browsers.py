"""A real Chromium that looks at the dashboard, and what is asked of every page that it shows."""

import json
import os
import pathlib
import re
import subprocess
from typing import Any, Dict, Iterator, List

import harness
from coordinators import Coordinator
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect, sync_playwright
from programs_run import START_SECONDS

CHROMIUM = "/usr/bin/chromium"
# Of a whole job, of which importing the program's libraries is most.
PATIENCE_MS = START_SECONDS * 1000
# Of every expectation: five seconds, the default, are too few on a machine that compiles meanwhile.
expect.set_options(timeout=PATIENCE_MS)
PICTURES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pictures"
MOST_PICTURE_BYTES = 200_000
# Of a job's page.
MOST_SECONDS_TO_SHOW = 1.0
AXE = pathlib.Path(__file__).resolve().parents[2] / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"


class Watched:
    """A page, with what went wrong in it: errors in its console, violations of its policy, requests to other hosts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: List[str] = []
        self.addresses: List[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))

    def _note(self, message: ConsoleMessage) -> None:
        # The browser itself tells of refused requests, such as the sign-in with a wrong token.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def require_peace(self, http: str) -> None:
        """Fails unless all went well, and nothing but the edge was asked."""
        assert not self.problems, self.problems
        elsewhere = [address for address in self.addresses if not address.startswith(f"http://{http}/")]
        assert not elsewhere, elsewhere


def browsers() -> Iterator[Browser]:
    """One that sees no other network than this machine's loopback."""
    with sync_playwright() as playwright:
        # Root, as in a container, has no sandbox.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def watched_pages(browser: Browser) -> Iterator[Watched]:
    """A new page without a session."""
    context = browser.new_context(color_scheme="light", locale="en-GB", viewport={"width": 1280, "height": 800})
    made = Watched(context.new_page())
    yield made
    # A handler that still waits for its answer would fail the next test.
    made.page.unroute_all(behavior="wait")
    context.close()


def sign_in(page: Page, http: str, token: str, place: str = "") -> None:
    """By keyboard; the address leads to the place afterwards."""
    page.goto(f"http://{http}/{place}")
    expect(page).to_have_url(re.compile("/login"))
    page.keyboard.type(token)  # the field has the focus
    page.keyboard.press("Enter")
    expect(page.locator("header")).to_be_visible()


def token_of(coordinator: Coordinator) -> str:
    """The coordinator's own."""
    return pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()


def audited(coordinator: Coordinator) -> List[Any]:
    """The methods and targets that the audit log has of the dashboard's changes."""
    words = ("audit", "tail", "--changes", "--json", "--state-dir", str(coordinator.state))
    lines = subprocess.check_output([str(harness.CLI), *words], text=True, timeout=60).splitlines()
    return [(one["method"], one["target"]) for one in map(json.loads, lines) if one["method"].startswith("POST ")]


def confirm_by_keys(coordinator: Coordinator, button: Locator, sure: Locator, warning: str) -> None:
    """Presses a button that asks back, gives up at its warning, and presses it again and confirms. Nothing may have been
    changed before."""
    page = button.page
    before = audited(coordinator)
    button.press("Enter", timeout=PATIENCE_MS)
    expect(sure).to_be_focused()
    expect(page.get_by_role("main")).to_contain_text(warning)
    require_clean(page)
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    assert audited(coordinator) == before, "nothing was done yet"
    page.keyboard.press("Enter")
    expect(sure).to_be_focused()
    page.keyboard.press("Enter")


def give_reason_by_keys(coordinator: Coordinator, button: Locator, warning: str, reason: str) -> None:
    """Presses a button that asks for a reason, gives up at its warning, and presses it again, without a reason first.
    Nothing may have been changed before the reason was given."""
    page = button.page
    before = audited(coordinator)
    button.press("Enter", timeout=PATIENCE_MS)
    field = page.get_by_label("Reason")
    expect(field).to_be_focused()
    expect(page.locator(".confirm")).to_contain_text(warning)
    require_clean(page)
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(field).to_be_focused()
    page.keyboard.press("Enter")
    expect(field).to_be_focused()  # the browser asks for the reason
    assert audited(coordinator) == before, "nothing was done yet"
    page.keyboard.type(reason)
    page.keyboard.press("Enter")


def make_token(coordinator: Coordinator, role: str, directory: pathlib.Path, *options: str) -> str:
    """A new one of the tenant default. `options`: more words of `farandole token create`."""
    path = directory / f"{role}-{len(list(directory.glob(f'{role}-*')))}"
    words = ("token", "create", "--tenant", "default", "--role", role, "--out", str(path), *options)
    subprocess.check_output([str(harness.CLI), *words, *coordinator.options()], timeout=60)
    return path.read_text(encoding="utf-8").strip()


def sign_in_anew(page: Page, http: str, token: str, place: str = "") -> None:
    """Without the session of before. The page knows the token's rights on return."""
    # A page that hears that its session is over goes to the sign-in by itself, which would break off the goto.
    page.goto("about:blank")
    page.context.clear_cookies()
    page.goto(f"http://{http}/login")
    with page.expect_response(re.compile("/api/v1/rights$")):
        sign_in(page, http, token, place)


def require_pages(page: Page, *names: str) -> None:
    """Fails unless the navigation has these pages, and no others."""
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link")).to_have_text(list(names))


def require_axe(page: Page) -> None:
    """Fails with what axe finds: WCAG 2.1, A and AA, and its best practices; in light and in dark."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found: Dict[str, List[Dict[str, object]]] = page.evaluate("axe.run()")
        broken = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]  # type: ignore
        assert not broken, f"{page.url}, {scheme}: {json.dumps(broken, indent=1)}"
    page.emulate_media(color_scheme="light")


def picture(page: Page, name: str) -> None:
    """A screenshot for the documentation: `FARANDOLE_PICTURES=write` puts it there, and otherwise only its size is held."""
    path = PICTURES / f"{name}.png"
    shot = page.screenshot(path=str(path) if os.environ.get("FARANDOLE_PICTURES") == "write" else None)
    assert len(shot) <= MOST_PICTURE_BYTES, f"{name}: {len(shot)} bytes"
    assert path.exists(), f"{path} is missing: run this test with FARANDOLE_PICTURES=write"


def require_clean(page: Page) -> None:
    """Fails where axe finds something in a desktop's or a phone's window, or where the page is wider than one of these, or
    than one between."""
    for width, height in ((1280, 800), (640, 400), (360, 740)):
        page.set_viewport_size({"width": width, "height": height})
        require_no_sideways(page)
        if width != 640:
            require_axe(page)
    page.set_viewport_size({"width": 1280, "height": 800})


# Notes when the page has its contents: milliseconds since its navigation began, its scripts and its questions included.
NOTE_CONTENTS = """(() => {
  const look = () => {
    if (document.documentElement.dataset.shown || !document.querySelector(".verdict .sentence") || !document.getElementById("facts")) return;
    requestAnimationFrame(() => { document.documentElement.dataset.shown ??= performance.now(); });
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true });
})();"""


def require_quick(page: Page, address: str) -> None:
    """Fails unless a browser that is signed in, and has kept nothing else of the page, shows this job within its budget: the
    verdict and the facts, in the median of three times."""
    took = []
    for _ in range(3):
        fresh = page.context.new_page()
        fresh.context.new_cdp_session(fresh).send("Network.setCacheDisabled", {"cacheDisabled": True})
        fresh.add_init_script(NOTE_CONTENTS)
        fresh.goto(address)
        # The page's policy forbids the eval() that wait_for_function() would need.
        took.append(float(fresh.locator("html[data-shown]").get_attribute("data-shown") or "nan") / 1000)
        fresh.close()
    print(f"the page of a job was there after {', '.join(f'{one:.2f}' for one in took)} s: {address}")
    assert sorted(took)[1] < MOST_SECONDS_TO_SHOW, took


# A grid or a chart is drawn for a window's new width after some frames.
FITTED = """async () => {
  const widths = () => [document.documentElement.scrollWidth, innerWidth];
  for (const end = performance.now() + 5000; widths()[0] > innerWidth && performance.now() < end;)
    await new Promise(requestAnimationFrame);
  return widths();
}"""


def require_no_sideways(page: Page) -> None:
    """Fails where the page itself is wider than the window, and stays so."""
    width = page.evaluate(FITTED)
    assert width[0] <= width[1], f"{page.url}: {width[0]} px in a window of {width[1]} px"
