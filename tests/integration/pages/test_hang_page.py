"""The page of a job that stands still, with real jobs: who waits for whom, the stacks, the last collectives, the archive."""

import json
import os
import pathlib
import re
import signal
import tarfile
from typing import Callable, Dict

from browsers import PATIENCE_MS, Watched, picture, require_clean, sign_in, token_of
from coordinators import Coordinator
from playwright.sync_api import Page, expect
from programs_run import START_SECONDS, Program
from test_diagnosis import pid_of

WORKERS = 3
STALL = {"FARANDOLE_STALL_WARNING_MS": "1000"}
SKIPPED = re.compile(r"rank 2 .* has not submitted allreduce 'grad\.18', for which ranks 0,1 wait")


def archive_of(page: Page, button: bool, name: str, directory: pathlib.Path) -> Dict[str, str]:
    """The texts of the archive's files, by name, as the browser keeps it."""
    with page.expect_download() as download:
        page.get_by_role("button" if button else "link", name=name, exact=True).click()
        if button:
            page.get_by_role("button", name=f"Yes: {name.lower()}").click()
    assert download.value.suggested_filename.endswith(".tar.gz"), download.value.suggested_filename
    path = directory / "archive.tar.gz"
    download.value.save_as(path)
    with tarfile.open(path) as tar:
        return {pathlib.Path(one).name: tar.extractfile(one).read().decode() for one in tar.getnames()}  # type: ignore[union-attr]


def test_of_a_job_whose_rank_skips_a_collective_the_page_names_the_rank(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page = watched.page
    run = job(WORKERS, "stuck", "skip", options=coordinator.options("--job", "skip"), **STALL)
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/skip")
    # From the verdict of the job's page, by keyboard.
    link = page.locator(".verdict").get_by_role("link", name="Who waits for whom")
    link.focus(timeout=PATIENCE_MS)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/jobs/default/skip/hang$"))
    hang = page.get_by_role("region", name="Who waits for whom")
    expect(hang.locator(".sentence")).to_have_text(SKIPPED, timeout=PATIENCE_MS)
    expect(hang).to_contain_text("As the ranks said when the job stalled")
    expect(hang).to_contain_text("3 of 3 ranks answered")

    graph = page.get_by_role("img", name=re.compile("^Graph: .*ranks 0,1 wait for rank 2"))
    expect(graph).to_be_visible()
    waits = page.get_by_role("table", name="Waits").get_by_role("row")
    skipped = waits.filter(has_text="allreduce grad.18")
    expect(skipped).to_contain_text("ranks 0,1")
    expect(skipped.get_by_role("link", name="rank 2", exact=True)).to_be_visible()
    expect(page.locator(".stack summary").filter(has_text="most are here")).to_contain_text("ranks 0,1")
    outlier = page.locator(".stack").filter(has_text="here they differ from most")
    expect(outlier).to_contain_text("rank 2")
    expect(outlier).to_contain_text("stuck.py:")
    expect(outlier).to_contain_text(re.compile(r"farandole_finish\s+libfarandole\.so"))
    expect(outlier).to_contain_text("Compiled code: read by ptrace")
    require_clean(page)
    page.evaluate("scrollTo(0, 0)")
    picture(page, "hang")
    check_the_recorders(page)

    texts = archive_of(page, False, "Download everything", tmp_path)
    assert sorted(texts) == ["README.txt", "diagnosis.json", "job.json", "rank-0.json", "rank-1.json", "rank-2.json"]
    assert "has not submitted allreduce 'grad.18'" in texts["README.txt"]
    assert token_of(coordinator) not in "".join(texts.values())
    assert len(json.loads(texts["rank-2.json"])["evidence"]["flight"]["records"]) > 20

    # When the job is over, it is still there.
    run.signal(signal.SIGINT)
    run.end()
    expect(page.locator(".headline")).to_contain_text(re.compile("failed|finished"))
    expect(hang.locator(".sentence")).to_contain_text("has not submitted allreduce 'grad.18'")
    expect(page.get_by_role("button", name="Ask the ranks now")).to_have_count(0)
    watched.require_peace(coordinator.http)


def check_the_recorders(page: Page) -> None:
    """The rank that others wait for comes first; the choice of another one is in the address."""
    expect(page.get_by_role("heading", name="The last collectives of rank 2")).to_be_visible()
    newest = page.get_by_role("table", name="Last collectives").get_by_role("row").nth(1)
    expect(newest).to_contain_text("grad.17")
    expect(newest).to_contain_text("submitted")
    page.get_by_role("button", name="rank 0").press("Enter")
    expect(page).to_have_url(re.compile(r"/hang\?rank=0$"))
    expect(page.get_by_role("heading", name="The last collectives of rank 0")).to_be_visible()
    expect(newest).to_contain_text("grad.18")


def test_each_state_of_the_evidence_is_shown(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    """No stall; asked now; gathered, of a rank that is stopped; gone with the coordinator's process."""
    # A stopped rank is not lost while the ranks are asked.
    coordinator = serve(FARANDOLE_SILENCE_LIMIT_MS="20000")
    page = watched.page
    calm = job(2, "diagnosed", "balanced", options=coordinator.options("--job", "calm"))
    calm.expect("runs", START_SECONDS)
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/calm/hang")
    expect(page.locator("main")).to_contain_text("This job has not stalled.", timeout=PATIENCE_MS)
    expect(page.locator("main")).to_contain_text("farandole diagnose calm")
    require_clean(page)
    page.get_by_role("button", name="Ask the ranks now", exact=True).press("Enter")
    expect(page.locator(".confirm")).to_contain_text("Each thread of the ranks is stopped for a moment")
    page.get_by_role("button", name="Yes: ask the ranks now").press("Enter")
    expect(page.locator("main")).to_contain_text("As the ranks said when you asked")
    expect(page.locator(".stack").first).to_contain_text("diagnosed.py:")
    texts = archive_of(page, True, "Ask now, and download all", tmp_path)
    assert "rank-1.json" in texts and "diagnosed.py" in texts["rank-1.json"], sorted(texts)
    calm.signal(signal.SIGINT)
    calm.end()

    run = job(WORKERS, "stuck", "sleep", options=coordinator.options("--job", "silent"), **STALL)
    run.expect("stuck", START_SECONDS)
    stopped = pid_of(coordinator, "silent", 1)
    os.kill(stopped, signal.SIGSTOP)
    page.goto(f"http://{coordinator.http}/#/jobs/default/silent/hang")
    expect(page.locator("main")).to_contain_text("evidence is being gathered", timeout=PATIENCE_MS)
    require_clean(page)
    expect(page.locator("main")).to_contain_text("rank 1: it did not answer within 4 s", timeout=PATIENCE_MS)
    expect(page.locator(".sentence.stalled").last).to_contain_text("rank 2 finished 'grad.17'")
    os.kill(stopped, signal.SIGCONT)
    run.signal(signal.SIGINT)
    run.end()

    coordinator.program.signal(signal.SIGTERM)
    coordinator.program.end()
    again = serve(coordinator)
    sign_in(page, again.http, token_of(again), "#/jobs/default/silent/hang")
    expect(page.locator("main")).to_contain_text("The evidence is not there any more.", timeout=PATIENCE_MS)
    expect(page.locator("main")).to_contain_text("has stalled before this coordinator was started")
    require_clean(page)
    assert not watched.problems, watched.problems
