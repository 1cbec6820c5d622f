"""Names that programs and people choose: the page shows them as they are, and obeys none."""

import pathlib
import re
from typing import Callable, List

from browsers import PATIENCE_MS, Watched, make_token, require_clean, sign_in, token_of
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import Dialog, Page, expect
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
