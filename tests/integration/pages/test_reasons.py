"""The dashboard says in a sentence why a job is red, in all the ways in which a worker may die."""

import os
import pathlib
import re
import shutil
import signal
import sys
from typing import Any, Callable, Dict

from browsers import Watched, require_clean, sign_in, token_of
from coordinators import Coordinator
from gates import Gate
from playwright.sync_api import Page, Route, expect
from programs_run import Program

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "programs" / "dying.py"
# The signs of a death that others see; on a busy machine silence is one, too.
LOST = (
    r"\(worker \d+ on host .*\) (was|were each) lost: (its process ended|its stream ended|nothing was heard of it for )"
)
# Of programs.
WAYS = {
    "exits": f"rank 1 {LOST}",
    "leaves": r"rank 0 \(.*\) failed: farandole.exceptions.EpochEnded: rank 1 \(.*\) has left the job",
    "stands": f"rank 1 {LOST}",
    "never joins": r"worker 1 \(pid \d+.*\) ended with exit code 5 after .* s, before the job had formed",
}
# Of processes that nobody's launcher reports.
KILLED = f"rank [01] {LOST}"
RED = "rgb(164, 14, 38)"
UNTOLD = "the connection broke; the coordinator was told no reason"


def kill_all(
    job: Callable[..., Program], start: Callable[..., Program], coordinator: Coordinator, page: Page, gate: Gate
) -> Dict[str, str]:
    """The patterns of the reasons, by the jobs' names."""
    reasons = {way.replace(" ", "-"): reason for way, reason in WAYS.items()}
    runs = [job(2, "dying", way, gate, options=coordinator.options("--job", way.replace(" ", "-"))) for way in WAYS]
    launched = job(2, "dying", "waits", gate, options=coordinator.options("--job", "launcher"))
    settings = {"FARANDOLE_COORDINATOR": coordinator.address, "FARANDOLE_TOKEN_FILE": coordinator.token_file}
    command = [sys.executable, str(PROGRAM), "waits", str(gate)]
    alone = start(*command, **settings, FARANDOLE_JOB="alone", FARANDOLE_SIZE="1")
    if shutil.which("mpirun") is not None:
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        mpi = start("mpirun", "--oversubscribe", "-np", "2", *command, **settings, **root, FARANDOLE_JOB="mpirun")
        os.kill(int(mpi.expect(r"process (\d+)").group(1)), signal.SIGKILL)
        reasons["mpirun"] = KILLED
    launched.expect(r"process \d+")
    launched.signal(signal.SIGKILL)
    alone.expect(r"process \d+")
    alone.signal(signal.SIGKILL)
    row = page.get_by_role("table", name="Jobs").get_by_role("row").filter(has_text="never-joins")
    expect(row).to_contain_text("waits for 1 of 2 workers: joined is worker")
    gate.let_through(1)
    for run in runs:
        assert run.end() != 0
    return {**reasons, "launcher": KILLED, "alone": KILLED}


def require_red(page: Page, coordinator: Coordinator, name: str, reason: str) -> None:
    """Fails unless the list, and all parts of the job's page that are red, say the reason."""
    page.goto(f"http://{coordinator.http}/#/?search={name}")
    told = page.get_by_role("table", name="Jobs").locator(".failed").filter(has_text=re.compile(reason))
    expect(told.first).to_be_visible()
    page.goto(f"http://{coordinator.http}/#/jobs/default/{name}/ranks")
    expect(page.locator(".headline")).to_contain_text("failed")
    sentence = page.locator(".verdict .failed").filter(has_text=re.compile(reason))
    expect(sentence).to_be_visible()
    expect(sentence).to_have_css("color", RED)
    for lost in page.locator(".verdict .lost").all_inner_texts():
        assert re.search(r"was lost: \S+ \S+ \S+", lost), lost


def without_reasons(value: Any) -> Any:
    """An answer of a coordinator that was told none."""
    if isinstance(value, dict):
        return {key: "" if key == "reason" else without_reasons(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_reasons(part) for part in value]
    return "lost:" if isinstance(value, str) and value.startswith("lost: ") else value


def test_each_way_to_die_has_its_reason(
    job: Callable[..., Program],
    start: Callable[..., Program],
    serve: Callable[..., Coordinator],
    gate: Gate,
    watched: Watched,
) -> None:
    coordinator = serve()
    page = watched.page
    sign_in(page, coordinator.http, token_of(coordinator))
    reasons = kill_all(job, start, coordinator, page, gate)
    for name, reason in reasons.items():
        require_red(page, coordinator, name, reason)
    require_clean(page)

    def answer(route: Route) -> None:
        fetched = route.fetch()
        route.fulfill(response=fetched, json=without_reasons(fetched.json()))

    page.route(re.compile("/api/v1/jobs"), answer)
    page.goto("about:blank")
    for place, part in (("?search=exits", "td .failed"), ("jobs/default/exits/rank/1", "p.lost")):
        page.goto(f"http://{coordinator.http}/#/{place}")
        expect(page.locator(part).filter(has_text=UNTOLD).first).to_be_visible()
    for part in (".verdict .lost", ".verdict .failed", "[aria-labelledby=rank-title] p.lost"):
        expect(page.locator(part).filter(has_text=UNTOLD)).to_be_visible()
    watched.require_peace(coordinator.http)
