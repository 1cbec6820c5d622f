"""Names that programs and people choose: the page shows them as they are, and obeys none."""

import contextlib
import json
import pathlib
import re
from typing import Any, Callable, List

from browsers import PATIENCE_MS, Watched, make_token, require_clean, sign_in, token_of
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import Dialog, Error, Page, Route, expect
from programs_run import START_SECONDS, Program

MARKUP = "<img src=x onerror=window.pwned=1>"
# Behind it a browser shows a text from right to left: "exe.png".
TURNED = MARKUP + "\u202egnp.exe"
# As people see it: the page's own sign, or the coordinator's in its sentences.
SHOWN = re.compile(re.escape(MARKUP) + r"(\\u202e|\?)gnp\.exe|" + re.escape(MARKUP) + "W")
# One word, which no line of a phone has room for.
NAME = TURNED + "W" * (128 - len(TURNED.encode()))
# Sections, labels and logged numbers have no such characters: they are refused.
SECTION = MARKUP + "W" * (64 - len(MARKUP))
PLACE = "#/jobs/default/hostile"
# Behind each text of the answers: a character that turns the text around, one that nobody sees, and one of a terminal's.
HIDDEN = "\u202e\u200b\x9b"
ESCAPED = "\\u202e\\u200b\\u009b"
# By the state the page decides what it shows, and by the names it asks: the coordinator takes none with such characters.
SAFE = {"state", "tenant", "job"}
# Each view of the page.
VIEWS = [
    *(
        f"{PLACE}{part}"
        for part in ("", "/ranks", "/rank/1", "/hosts", "/collectives", "/metrics", "/checkpoints", "/history")
    ),
    *("#/", "#/compare?a=default%2Fhostile&b=default%2Fhostile", "#/tokens", "#/audit"),
]
END_IT = "async ([path, reason]) => (await fetch(path, {method: 'POST', body: reason})).status"


def require_harmless(page: Page, *parts: str) -> None:
    """Fails unless these parts of the page show the name, and nothing of it has become markup, script or order."""
    for part in parts:
        expect(page.locator(part).filter(has_text=SHOWN).first).to_be_visible(timeout=PATIENCE_MS)
    assert page.evaluate("window.pwned === undefined && document.images.length === 0")
    assert "\u202e" not in page.content()
    order = "() => [...document.querySelectorAll('code, main a')].map((one) => getComputedStyle(one).unicodeBidi)"
    assert set(page.evaluate(order)) <= {"isolate"}
    require_clean(page)


def hide(value: Any, name: str = "") -> Any:
    """The value with hidden characters behind each of its texts, also in fields that are new."""
    if isinstance(value, dict):
        return {key: hide(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [hide(part, name) for part in value]
    return value + HIDDEN if isinstance(value, str) and value and name not in SAFE else value


def hide_in_answers(page: Page) -> None:
    """From now on all texts that come from the coordinator have hidden characters."""

    def answer(route: Route) -> None:
        fetched = route.fetch()
        body = fetched.body()
        if "json" in fetched.headers.get("content-type", ""):
            body = json.dumps(hide(json.loads(body)), ensure_ascii=False).encode()
        # Of a page that has gone meanwhile the browser has ended the request. No page that is looked at would be filled then.
        with contextlib.suppress(Error):
            route.fulfill(response=fetched, body=body)

    page.route(re.compile("/api/v1/(?!events)"), answer)


def require_nothing_hidden(page: Page, coordinator: Coordinator) -> None:
    """Fails unless every view shows what is hidden as escapes, wherever it stands: in texts, attributes, titles."""
    hide_in_answers(page)
    for view in VIEWS:
        page.goto("about:blank")
        page.goto(f"http://{coordinator.http}/{view}")
        expect(page.locator("main").get_by_text(ESCAPED).first).to_be_visible(timeout=PATIENCE_MS)
        expect(page.locator("main .loading")).to_have_count(0)
        for text in (page.content(), page.title()):
            assert not set(HIDDEN) & set(text), f"{view}: {text}"
    page.unroute_all()
    # Somebody may send an address, too.
    page.goto(f"http://{coordinator.http}/#/jobs/default/hosti%E2%80%AEle")
    expect(page.get_by_role("heading", name="hosti\\u202ele")).to_be_visible()
    page.goto(f"http://{coordinator.http}/{PLACE}/host/%E2%80%AE")
    expect(page.get_by_role("heading", name="Host \\u202e")).to_be_visible()
    assert not set(HIDDEN) & set(page.content() + page.title())


def test_names_are_shown_and_not_obeyed(
    job: Callable[..., Program],
    serve: Callable[..., Coordinator],
    gate: Gate,
    watched: Watched,
    tmp_path: pathlib.Path,
) -> None:
    coordinator = serve()
    page = watched.page
    dialogs: List[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    make_token(coordinator, "viewer", tmp_path, "--label", SECTION)
    words = (NAME, SECTION, tmp_path, gate)
    options = coordinator.options("--job", "hostile")
    run = job(2, "hostile_names", *words, options=options, FARANDOLE_STALL_WARNING_MS="1000")
    run.expect("runs", START_SECONDS)
    sign_in(page, coordinator.http, token_of(coordinator), PLACE)

    def visit(place: str, *parts: str) -> None:
        page.goto(f"http://{coordinator.http}/{place}")
        require_harmless(page, *parts)

    visit(f"{PLACE}/collectives", "[aria-labelledby=costs-title] code", "[aria-labelledby=places-title] td, th")
    visit(f"{PLACE}/metrics", ".chart figcaption")
    visit(f"{PLACE}/checkpoints", "td code")
    visit(f"{PLACE}/rank/1", ".tiles dd", ".tiles dt")
    visit("#/compare?a=default%2Fhostile&b=default%2Fhostile", ".chart figcaption")
    visit("#/tokens", "td")
    require_nothing_hidden(page, coordinator)

    (tmp_path / "stall").touch()
    page.goto(f"http://{coordinator.http}/{PLACE}/hang")
    expect(page.locator(".waits")).to_be_visible(timeout=PATIENCE_MS)
    require_harmless(page, ".verdict .stalled", "td code")

    path = "/api/v1/jobs/hostile/abort?tenant=default"
    assert page.evaluate(END_IT, [path, NAME]) == 200
    visit(f"{PLACE}/history", ".verdict .failed", "#history span")
    visit(PLACE, ".verdict .failed", "#facts dd")
    visit("#/", "td .failed")
    visit(f"{PLACE}/ranks")
    visit(f"{PLACE}/hosts")
    visit("#/audit")
    assert run.end() != 0
    assert not dialogs, dialogs
    watched.require_peace(coordinator.http)
