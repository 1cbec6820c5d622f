"""Replies that a real browser takes compressed, and those that stay as they are."""

import gzip
import time
import urllib.request
from typing import Callable, Dict

from browsers import Watched, sign_in, token_of
from coordinators import Coordinator
from playwright.sync_api import expect
from programs_run import START_SECONDS, Program


def fetch(coordinator: Coordinator, path: str, **headers: str) -> bytes:
    """The bytes of a reply as they come."""
    headers["Authorization"] = f"Bearer {token_of(coordinator)}"
    request = urllib.request.Request(f"http://{coordinator.http}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return bytes(response.read())


def test_answers_are_compressed_and_signing_in_is_not(
    job: Callable[..., Program], serve: Callable[..., Coordinator], watched: Watched
) -> None:
    coordinator = serve()
    page = watched.page
    run = job(3, "diagnosed", "balanced", options=coordinator.options("--job", "packed"))
    run.expect("runs", START_SECONDS)
    coded: Dict[str, str] = {}
    page.on(
        "response",
        lambda one: coded.update({one.url.split(coordinator.http)[1]: one.headers.get("content-encoding", "")}),
    )
    sign_in(page, coordinator.http, token_of(coordinator), "#/jobs/default/packed/ranks")
    expect(page.get_by_role("table", name="Ranks").get_by_role("row")).to_have_count(1 + 3)
    # Until ranks are measured, the answer may be too short for it; the page asks again.
    deadline = time.monotonic() + START_SECONDS
    while not any("view=workers" in path and coding == "gzip" for path, coding in coded.items()):
        assert time.monotonic() < deadline, coded
        page.wait_for_timeout(200)
    assert not any("view=ranks" in path and coding for path, coding in coded.items()), "three bytes are not worth it"
    assert coded["/login"] == coded["/"] == "", coded

    path = "/api/v1/jobs/packed?view=workers&order=rank"
    plain = fetch(coordinator, path)
    packed = fetch(coordinator, path, **{"Accept-Encoding": "gzip"})
    assert len(packed) < len(plain) / 2, (len(packed), len(plain))
    assert gzip.decompress(packed).startswith(b'{"found":3,'), packed
    metrics = fetch(coordinator, "/metrics", **{"Accept-Encoding": "gzip"})
    assert b"farandole_workers" in gzip.decompress(metrics)
    watched.require_peace(coordinator.http)
