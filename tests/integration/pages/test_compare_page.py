"""Two runs beside each other, one of them slowed down by a rank, and one of them over."""

import re
import signal
from typing import Callable

from browsers import PATIENCE_MS, Watched, picture, require_clean, sign_in, token_of
from coordinators import Coordinator
from playwright.sync_api import Page, expect
from programs_run import START_SECONDS, Program

BUSY = {"FARANDOLE_STALL_WARNING_MS": "7000"}


def choose(page: Page, side: str, job: str) -> None:
    """By keyboard, as the list proposes it."""
    field = page.get_by_label(f"The {side} job")
    field.focus()
    page.keyboard.type(job)
    page.keyboard.press("Tab")


def test_a_slow_run_is_compared_with_a_balanced_one(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    balanced = job(2, "diagnosed", "balanced", options=coordinator.options("--job", "balanced"))
    busy = job(2, "diagnosed", "busy", options=coordinator.options("--job", "busy"), **BUSY)
    for run in (balanced, busy):
        run.expect("runs", START_SECONDS)
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/balanced")
    page.get_by_role("link", name="Compare with another run").click()
    expect(page).to_have_url(re.compile(r"#/compare\?a=default%2Fbalanced$"))
    expect(page.locator("main")).to_contain_text("Choose two jobs.")
    require_clean(page)
    choose(page, "second", "default/busy")
    expect(page).to_have_url(re.compile(r"a=default%2Fbalanced&b=default%2Fbusy$"))

    differs = page.get_by_role("table", name="What differs")
    step = differs.get_by_role("row").filter(has_text="Step time")
    expect(step).to_contain_text(re.compile(r"ms.*ms.*\+\d+ %"), timeout=PATIENCE_MS)
    expect(differs).to_contain_text("Waiting for ranks")
    expect(page.locator("main")).to_contain_text("The same in both:")
    for chart, name in ((0, "loss"), (1, "samples")):
        slider = page.get_by_role("slider", name=name)
        expect(slider).to_have_attribute(
            "aria-valuetext", re.compile("first: balanced .*second: busy"), timeout=PATIENCE_MS
        )
        expect(page.locator(".chart canvas").nth(chart)).to_be_visible()
    # Each rank logs 32 and its number: the mean of two is between them.
    samples = page.get_by_role("slider", name="samples")
    samples.focus()
    page.keyboard.press("Home")
    expect(samples).to_have_attribute("aria-valuetext", "step 0: first: balanced 32.5, second: busy 32.5")
    worst = page.get_by_role("table", name="Worst ranks of the second job, busy").get_by_role("row").nth(1)
    expect(worst.get_by_role("link")).to_have_text("1", timeout=PATIENCE_MS)
    expect(worst).to_contain_text("s")
    check_the_settings(page)
    require_clean(page)
    page.evaluate("scrollTo(0, 0)")
    picture(page, "compare")

    # The address is all that another browser needs; an ended run is compared as well.
    balanced.signal(signal.SIGINT)
    balanced.end()
    page.reload()
    expect(differs.get_by_role("row").filter(has_text="State")).to_contain_text("running", timeout=PATIENCE_MS)
    expect(step).to_contain_text(re.compile(r"ms.*ms"))
    expect(page.get_by_role("slider", name="loss")).to_be_visible()
    page.goto(f"http://{coordinator.http}/#/compare?a=default%2Fbusy&b=default%2Fnothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no such thing")
    require_clean(page)
    watched.require_peace(coordinator.http)


def check_the_settings(page: Page) -> None:
    """They are not known until the ranks are asked; then the one that differs is shown, with both values."""
    section = page.get_by_role("region", name="Settings that differ", exact=True)
    expect(section).to_contain_text("Not known of balanced and busy")
    section.get_by_role("button", name="Ask for the settings now", exact=True).press("Enter")
    expect(section.locator(".confirm")).to_contain_text("Each thread of the ranks is stopped for a moment")
    section.get_by_role("button", name="Yes: ask for the settings now").press("Enter")
    table = page.get_by_role("table", name="Settings that differ")
    expect(table.get_by_role("row").filter(has_text="STALL_WARNING_MS")).to_contain_text("7000", timeout=PATIENCE_MS)
