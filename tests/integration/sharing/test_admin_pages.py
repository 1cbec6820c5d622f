"""Pages for people who run a coordinator for others: the queue, tenants, tokens and the audit log, by roles, with real
launches that wait."""

import pathlib
import re
from typing import Callable

from browsers import Watched, picture, require_clean, require_pages, sign_in_anew, token_of
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import Page, expect
from programs_run import Program
from test_queue import WAITS, Team

STATUS = "async path => (await fetch(path)).status"
FOR_ALL = ["Jobs", "Compare", "Queue", "Tenants"]
FOR_ADMINS = [*FOR_ALL, "Tokens", "Audit"]


def text_of(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def go(page: Page, name: str) -> None:
    """To a page of the navigation, whose heading has the focus then."""
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def require_refused(page: Page, http: str, *names: str) -> None:
    """Those pages have no link and, by their addresses, no rows."""
    for name in names:
        page.goto(f"http://{http}/#/{name}")
        expect(page.get_by_role("alert")).to_contain_text("No rights")
        expect(page.get_by_role("table")).to_have_count(0)
        assert page.evaluate(STATUS, f"/api/v1/{name}") == 403
    require_clean(page)


def test_each_role_sees_the_queue_tenants_tokens_and_audit_that_are_its_own(
    start: Callable[..., Program],
    serve: Callable[..., Coordinator],
    gate: Gate,
    watched: Watched,
    tmp_path: pathlib.Path,
) -> None:
    coordinator = serve()
    team = Team(coordinator, tmp_path)
    coordinator.make_tenant(team.run("x")[0], "others", tmp_path)
    viewer = tmp_path / "viewer"
    team.ask(
        "token", "create", "--role", "viewer", "--label", "the wall", "--out", str(viewer), *team.options(team.admin)
    )
    page, http = watched.page, coordinator.http

    # Root, while nobody waits.
    sign_in_anew(page, http, token_of(coordinator), "#/queue")
    expect(page.get_by_text("No launch waits.")).to_be_visible()
    expect(page.locator(".command")).to_contain_text("farandole run")
    require_clean(page)
    require_pages(page, *FOR_ADMINS, "Coordinator")

    first = start(*team.run("first", "sh", "-c", f"echo runs; head -c 1 <{gate} >/dev/null"))
    first.expect(r"\[0\] runs")
    second = start(*team.run("second", "echo", "started"))
    second.expect(WAITS.format("second", 1, 1))
    see_all(page)

    sign_in_anew(page, http, text_of(team.admin), "#/queue")
    see_own(page)
    # Ends of secrets: a '_' may be in one.
    secrets = [text_of(path)[-32:] for path in (team.admin, team.launcher, viewer)]
    texts = "async path => (await fetch(path)).text()"
    shown = "".join(page.evaluate(texts, f"/api/v1/{name}") for name in ("tokens", "audit", "tenants", "queue"))
    assert "the wall" in shown and not [one for one in secrets if one in shown]

    # A viewer sees what waits, and the quota.
    sign_in_anew(page, http, text_of(viewer), "#/tenants")
    tenants, queue = page.get_by_role("table", name="Tenants"), page.get_by_role("table", name="Queue")
    expect(tenants.get_by_role("row")).to_have_count(2)
    expect(tenants.get_by_role("link", name="3")).to_have_count(0)
    require_pages(page, *FOR_ALL)
    go(page, "Queue")
    queue.get_by_role("link", name="second").click()
    expect(page.locator(".headline")).to_contain_text("queued")
    expect(page.locator(".verdict")).to_contain_text("place 1 of 1")
    expect(page.get_by_label("Reason")).to_have_count(0)
    require_refused(page, http, "tokens", "audit")

    gate.let_through(1)
    page.goto(f"http://{http}/#/queue")
    expect(page.get_by_text("No launch waits.")).to_be_visible()
    first.require_end(0)
    second.require_end(0)
    watched.require_peace(http)


def see_all(page: Page) -> None:
    """As root: the page of the queue has heard of the launch by itself."""
    queue = page.get_by_role("table", name="Queue")
    expect(queue.get_by_role("row")).to_have_count(2)
    expect(queue.get_by_role("link", name="team/second")).to_be_visible()
    expect(queue).to_contain_text("1 of 1")
    require_clean(page)
    go(page, "Tenants")
    tenants = page.get_by_role("table", name="Tenants")
    expect(tenants.get_by_role("rowheader")).to_have_text(["default", "others", "team"])
    expect(tenants.get_by_role("row").filter(has_text="team")).to_contain_text("1 for 1 workers")
    require_clean(page)
    page.keyboard.press("/")
    page.keyboard.type("nothing")
    expect(page.get_by_text("No tenant fits.")).to_be_visible()
    expect(page).to_have_url(re.compile("search=nothing"))
    require_clean(page)
    page.get_by_role("searchbox").fill("tea")
    tenants.get_by_role("row").filter(has_text="team").get_by_role("link", name="3").click()
    expect(page).to_have_url(re.compile("#/tokens.tenant=team$"))
    tokens = page.get_by_role("table", name="Tokens")
    expect(tokens.get_by_role("row")).to_have_count(1 + 3)
    page.get_by_role("searchbox").fill("")
    expect(tokens.get_by_role("row").filter(has_text="the start token")).to_contain_text("default")
    expect(tokens.get_by_role("row")).to_have_count(1 + 5)
    page.get_by_role("searchbox").fill("nobody")
    expect(page.get_by_text("No token.")).to_be_visible()
    require_clean(page)
    go(page, "Audit")
    log = page.get_by_role("table", name="Audit log")
    expect(log).to_contain_text("AdminService.CreateTenant")
    expect(log).to_contain_text("tenant others")
    require_clean(page)
    page.evaluate("scrollTo(0, 0)")
    picture(page, "audit")
    page.get_by_role("button", name="denials").press("Enter")
    expect(page).to_have_url(re.compile("chain=denials"))
    expect(page.get_by_text("There is no line.")).to_be_visible()
    require_clean(page)
    go(page, "Queue")


def see_own(page: Page) -> None:
    """As the tenant's admin."""
    queue = page.get_by_role("table", name="Queue")
    expect(queue.get_by_role("row")).to_have_count(2)
    expect(queue).to_contain_text("tenant team runs 1 jobs, its quota is 1")
    require_pages(page, *FOR_ADMINS)
    go(page, "Tenants")
    tenants = page.get_by_role("table", name="Tenants")
    expect(tenants.get_by_role("row")).to_have_count(2)
    expect(tenants).to_contain_text("1 of 1, full")
    go(page, "Tokens")
    tokens = page.get_by_role("table", name="Tokens")
    expect(tokens.get_by_role("row")).to_have_count(1 + 3)
    expect(tokens.get_by_role("row").filter(has_text="the wall")).to_contain_text("viewer")
    require_clean(page)
    go(page, "Audit")
    log = page.get_by_role("table", name="Audit log")
    expect(log).to_contain_text("AccessService.CreateToken")
    expect(log).not_to_contain_text("others")
    expect(page.get_by_role("button", name="denials")).to_have_count(0)
    require_clean(page)
    assert page.evaluate(STATUS, "/api/v1/audit?chain=denials") == 403
    assert page.evaluate(STATUS, "/api/v1/tokens?tenant=default") == 403


def test_the_audit_log_is_read_part_by_part(
    serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page, http = watched.page, coordinator.http
    cli = Team(coordinator, tmp_path)
    for number in range(120):
        words = ("quota", "set", "team", "--jobs", str(number + 1), *coordinator.options())
        cli.ask(*words)
    sign_in_anew(page, http, token_of(coordinator), "#/audit")
    log = page.get_by_role("table", name="Audit log")
    expect(log.get_by_role("row")).to_have_count(1 + 100)
    expect(page.get_by_role("button", name="Newest")).to_be_disabled()
    page.get_by_role("button", name="Earlier").press("Enter")
    expect(log.get_by_role("row")).to_have_count(1 + 22)
    expect(log.get_by_role("row").last).to_contain_text("AdminService.CreateTenant")
    expect(page.get_by_role("button", name="Earlier")).to_be_disabled()
    address = page.url
    page.goto(f"http://{http}/#/jobs")
    page.goto(address)
    expect(log.get_by_role("row")).to_have_count(1 + 22)
    page.get_by_role("button", name="Newest").press("Enter")
    expect(log.get_by_role("row")).to_have_count(1 + 100)
    watched.require_peace(http)
