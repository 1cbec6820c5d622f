"""A page of a job that forms, and one whose token ends."""

import json
import pathlib
import re
import subprocess
from typing import Callable

import harness
from browsers import PATIENCE_MS, Watched, make_token, require_clean, sign_in, sign_in_anew, token_of
from coordinators import Coordinator
from playwright.sync_api import expect
from programs_run import Program

HANGING = harness.ROOT / ".venv" / "lib" / "cpp" / "hanging"


def test_a_job_that_forms_says_which_command_tells_more(
    start: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    start(
        str(HANGING),
        FARANDOLE_COORDINATOR=coordinator.address,
        FARANDOLE_TOKEN_FILE=coordinator.token_file,
        FARANDOLE_JOB="forming",
        FARANDOLE_SIZE="2",
        FARANDOLE_LAUNCH_INDEX="0",
    )
    sign_in(page, coordinator.http, token_of(coordinator))
    page.get_by_role("link", name="forming", exact=True).click(timeout=PATIENCE_MS)
    for part, title in (("ranks", "No rank yet."), ("hosts", "No host takes part.")):
        page.get_by_role("navigation", name="Parts of the job").get_by_role("link", name=part).click()
        empty = page.locator(".empty")
        expect(empty).to_contain_text(title)
        expect(empty.locator(".command")).to_have_text("farandole job show forming")
        require_clean(page)
    watched.require_peace(coordinator.http)


def test_a_page_whose_token_is_revoked_goes_to_the_sign_in_by_itself(
    serve: Callable[..., Coordinator], watched: Watched, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    page = watched.page
    sign_in_anew(page, coordinator.http, make_token(coordinator, "viewer", tmp_path))
    expect(page.locator(".connection")).to_have_text("● live")
    listed = subprocess.check_output([str(harness.CLI), "token", "list", "--json", *coordinator.options()], timeout=60)
    revoked = next(one["id"] for one in json.loads(listed) if one["role"] == "viewer")
    subprocess.check_call([str(harness.CLI), "token", "revoke", revoked, *coordinator.options()], timeout=60)
    expect(page).to_have_url(re.compile("/login"))
    page.goto(f"http://{coordinator.http}/")
    expect(page).to_have_url(re.compile("/login"))
    watched.require_peace(coordinator.http)
