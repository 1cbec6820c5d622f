"""Buttons that end a running job, and that have workers and hosts of an elastic one leave it: with real jobs, rights,
reasons, and lines in the audit log."""

import pathlib
import re
from typing import Callable

import hosts
import pytest
from browsers import (
    PATIENCE_MS,
    Watched,
    audited,
    give_reason_by_keys,
    make_token,
    require_clean,
    sign_in_anew,
    token_of,
)
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from playwright.sync_api import expect
from programs_run import START_SECONDS, Program

POST = "async path => (await fetch(path, {method: 'POST', body: 'because'})).status"


def test_a_running_job_is_ended_on_its_page(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page = watched.page
    run = job(2, "diagnosed", "balanced", options=coordinator.options("--job", "steady"))
    run.expect("runs", START_SECONDS)
    end = page.get_by_role("button", name="End the job", exact=True)

    sign_in_anew(page, coordinator.http, make_token(coordinator, "viewer", tmp_path), "#/jobs/default/steady")
    expect(page.get_by_role("button", name="Stacks now")).to_be_visible()
    expect(end).to_have_count(0)
    assert page.evaluate(POST, "/api/v1/jobs/steady/abort?tenant=default") == 403
    # The button is there for all launchers, and the coordinator tells whose job it is.
    sign_in_anew(page, coordinator.http, make_token(coordinator, "launcher", tmp_path), "#/jobs/default/steady")
    give_reason_by_keys(coordinator, end, "2 workers will end with the reason that you give", "not mine")
    status = page.get_by_role("region", name="End it").get_by_role("status")
    expect(status).to_contain_text("which may change its own jobs only")
    expect(page.locator(".headline")).to_contain_text("running")

    sign_in_anew(page, coordinator.http, token_of(coordinator), "#/jobs/default/steady")
    before = len(audited(coordinator))
    give_reason_by_keys(coordinator, end, "2 workers will end with the reason that you give", "the data is wrong")
    expect(status).to_have_text("The job is ended; its workers are told the reason.")
    expect(page.locator(".headline")).to_contain_text("failed")
    expect(page.locator(".verdict")).to_contain_text("an operator ended the job: the data is wrong")
    expect(end).to_have_count(0)
    require_clean(page)
    assert run.end() != 0
    assert "an operator ended the job: the data is wrong" in run.output, run.output
    assert audited(coordinator)[before:] == [("POST /api/v1/jobs/*/abort", "job default/steady")]
    watched.require_peace(coordinator.http)


def test_a_rank_and_a_host_leave_an_elastic_job_that_goes_on(
    start: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    if reason := hosts.why_no_namespaces():
        pytest.skip(reason)
    coordinator = serve(FARANDOLE_SILENCE_LIMIT_MS="8000")
    page = watched.page
    # The last of three workers is on a host of another name.
    here = ("env", "FARANDOLE_HOST_ID=near")
    far = ("unshare", "--uts", "env", "FARANDOLE_HOST_ID=far", "sh", "-c", 'hostname far-node && exec "$@"', "sh")
    job = ElasticJob(start, coordinator, "elastic_stepping", tmp_path, sizes=(1, 3, 3), prefixes=(here, here, far))
    job.expect_steps(3, 0, 1, 2)
    place = "#/jobs/default/elastic"
    drains = page.get_by_role("button", name=re.compile("^Drain"))

    sign_in_anew(page, coordinator.http, make_token(coordinator, "viewer", tmp_path), f"{place}/rank/0")
    expect(page.locator("main")).to_contain_text("collectives", timeout=PATIENCE_MS)
    expect(drains).to_have_count(0)
    assert page.evaluate(POST, "/api/v1/jobs/elastic/drain?tenant=default&rank=0") == 403

    rank = job.workers[1]
    number = int(re.findall(r"as rank (\d+) from step ", rank.output)[-1])
    sign_in_anew(page, coordinator.http, token_of(coordinator), f"{place}/rank/{number}")
    button = page.get_by_role("button", name="Drain this rank", exact=True)
    warning = f"Its worker, pid {rank.pid} on "
    give_reason_by_keys(coordinator, button, warning, "its fan is loud")
    expect(page.get_by_role("status").last).to_have_text(f"Asked to leave: rank {number}.")
    job.require_end(0, 1)
    assert "its fan is loud" in rank.output, rank.output
    job.expect_steps(2, 0, 2)
    expect(page.get_by_role("status").last).to_have_text(f"Asked to leave: rank {number}.")

    page.get_by_role("link", name="hosts (2)").click()
    page.get_by_role("link", name="far-node").click()
    expect(page.get_by_role("heading", name="Host far-node")).to_be_visible()
    require_clean(page)
    button = page.get_by_role("button", name="Drain this host", exact=True)
    give_reason_by_keys(coordinator, button, "All workers on far-node will leave", "its rack is moved")
    expect(page.get_by_role("status").last).to_contain_text("Asked to leave: rank ")
    job.require_end(0, 2)
    job.expect_steps(1, 0)
    # The host is gone from the page; the answer is not.
    expect(page.get_by_text("No such host takes part in this epoch.")).to_be_visible()
    expect(page.get_by_role("status").last).to_contain_text("Asked to leave: rank ")
    assert audited(coordinator) == 2 * [("POST /api/v1/jobs/*/drain", "job default/elastic")]

    # The last worker stays, and the page says why.
    page.goto(f"http://{coordinator.http}/{place}/rank/0")
    button = page.get_by_role("button", name="Drain this rank", exact=True)
    give_reason_by_keys(coordinator, button, "will leave at the program's next commit", "all of it")
    expect(page.get_by_role("status").last).to_contain_text("would have 0 workers, and its min_size is 1")
    (tmp_path / "stop").touch()
    job.require_end(0, 0)
    page.get_by_role("link", name="history", exact=True).click()
    expect(page.locator("#history")).to_contain_text("an operator drains host far-node: its rack is moved")
    watched.require_peace(coordinator.http)
