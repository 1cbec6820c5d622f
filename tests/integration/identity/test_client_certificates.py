"""Clients that prove themselves by certificates with SPIFFE IDs in place of tokens."""

import os
import pathlib
import shutil
import subprocess
import sys
import time
from typing import Callable, Dict, List

import harness
import pytest
from authority import Authority, Pair
from coordinators import Coordinator
from programs_run import Program

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"
OVER_HOSTS = [sys.executable, str(PROGRAMS / "over_hosts.py")]
LAUNCHER = "spiffe://example.org/tenant/default/launcher"
VIEWER = "spiffe://example.org/tenant/default/viewer"
CLIENTS = [
    [sys.executable, str(PROGRAMS / "client_tool.py")],
    [str(harness.ROOT / ".venv/lib/cpp/client_tool")],
]
# Lists jobs again and again, until the test ends it by a file.
LISTS = """
import pathlib, sys
from farandole.client import Client
with Client.from_environment() as client:
    print("first", client.jobs(), flush=True)
    while not pathlib.Path(sys.argv[1]).exists():
        client.jobs()
print("never refused")
"""


class Site:
    """A coordinator that takes the certificates of an authority, and the commands of its clients."""

    def __init__(self, start: Callable[..., Program], directory: pathlib.Path) -> None:
        self.start = start
        self.authority = Authority(directory / "authority")
        self.client_ca = directory / "client-ca.pem"
        shutil.copy(self.authority.ca, self.client_ca)
        own = self.authority.issue()
        self.coordinator = Coordinator(
            start(
                *(str(harness.CLI), "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
                *("--state-dir", str(directory / "state"), "--tls-cert", own.certificate, "--tls-key", own.key),
                *("--client-ca", str(self.client_ca), "--trust-domain", "example.org"),
            ),
            directory / "state",
        )

    def options(self, pair: Pair) -> List[str]:
        """Of a command: to use this coordinator by the certificate alone."""
        where = ["--coordinator", self.coordinator.address, "--ca", str(self.authority.ca)]
        return [*where, "--cert", pair.certificate, "--key", pair.key]

    def environment(self, pair: Pair) -> Dict[str, str]:
        """The same for a program."""
        return {
            "FARANDOLE_COORDINATOR": self.coordinator.address,
            "FARANDOLE_CA_FILE": str(self.authority.ca),
            "FARANDOLE_CERT_FILE": pair.certificate,
            "FARANDOLE_KEY_FILE": pair.key,
        }

    def run(self, *words: object) -> "subprocess.CompletedProcess[str]":
        """A command that ends by itself."""
        return subprocess.run(
            [str(harness.CLI), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )

    def refused(self, pair: Pair, *words: object) -> str:
        """The words of a command that fails."""
        done = self.run(*(words or ("job", "list")), *self.options(pair))
        assert done.returncode != 0, done.stdout
        return done.stdout


@pytest.fixture
def site(start: Callable[..., Program], tmp_path: pathlib.Path) -> Site:
    return Site(start, tmp_path)


def test_a_certificate_alone_launches_a_job(site: Site) -> None:
    pair = site.authority.issue(LAUNCHER)
    run = [str(harness.CLI), "run", "-np", "2", "--job"]
    by_options = site.start(*run, "options", *site.options(pair), *OVER_HOSTS)
    by_options.require_end(0)
    assert "[1] sum 3.0 of 2 with TLS\n" in by_options.output, by_options.output
    by_environment = site.start(*run, "environment", "--attach", *OVER_HOSTS, **site.environment(pair))
    by_environment.require_end(0)
    assert "[0] sum 3.0 of 2 with TLS\n" in by_environment.output, by_environment.output
    listed = site.run("job", "list", *site.options(pair))
    assert "options" in listed.stdout and "environment" in listed.stdout, listed.stdout


def test_workers_without_a_launcher_join_by_their_certificate(site: Site) -> None:
    environment = {**site.environment(site.authority.issue(LAUNCHER)), "FARANDOLE_SIZE": "2"}
    workers = [site.start(*OVER_HOSTS, **environment, FARANDOLE_LAUNCH_INDEX=str(i)) for i in range(2)]
    for worker in workers:
        worker.require_end(0)
        assert "sum 3.0 of 2 with TLS" in worker.output, worker.output


def test_a_viewer_looks_and_does_not_launch_or_join(site: Site) -> None:
    pair = site.authority.issue(VIEWER)
    assert site.run("job", "list", *site.options(pair)).returncode == 0
    run = site.run("run", "-np", "1", *site.options(pair), "true")
    sentence = f"{VIEWER} (viewer of tenant default) may not start jobs or join them"
    assert run.returncode != 0 and sentence in run.stdout, run.stdout
    worker = site.start(*OVER_HOSTS, **site.environment(pair))
    assert worker.end() != 0
    assert sentence in worker.output, worker.output


def test_others_hear_what_was_found_and_wanted(site: Site, tmp_path: pathlib.Path) -> None:
    foreign = site.authority.issue("spiffe://other.org/tenant/default/launcher")
    wanted = "wanted is one URI, spiffe://example.org/tenant/TENANT/ROLE"
    told = site.refused(foreign)
    assert f"refused the certificate in {foreign.certificate}: " in told and wanted in told, told
    assert "is for spiffe://other.org/tenant/default/launcher of another trust domain" in told
    assert "has no URI" in site.refused(site.authority.issue())
    own = site.environment(site.authority.issue(LAUNCHER))
    of_another = site.start(*CLIENTS[0], "job", "train", "vision", **own)
    of_another.require_end(1)
    assert f"{LAUNCHER} (launcher of tenant default) does not show the jobs of tenant vision" in of_another.output

    stranger = Authority(tmp_path / "stranger", "a stranger").issue(LAUNCHER)
    sentence = (
        f"coordinator {site.coordinator.address} does not accept the certificate in {stranger.certificate}, which"
    )
    assert sentence in site.refused(stranger)
    worker = site.start(*OVER_HOSTS, **site.environment(stranger))
    assert worker.end() != 0
    assert sentence in worker.output, worker.output

    expired = site.authority.issue(LAUNCHER, seconds=-60)
    assert f"the certificate file {expired.certificate} with the key file" in site.refused(expired)
    assert "certificate 1 of 1 is valid from" in site.refused(expired)
    public = site.authority.issue(LAUNCHER)
    os.chmod(public.key, 0o644)
    told = site.refused(public)
    assert f"the key file {public.key} has mode 0644, so that every user of this host may read it" in told


def test_new_authorities_count_without_a_restart(site: Site, tmp_path: pathlib.Path) -> None:
    old = site.authority.issue(VIEWER)
    following = Authority(tmp_path / "next", "the next CA")
    new = following.issue(VIEWER)
    assert "does not accept the certificate" in site.refused(new)
    shutil.copy(following.ca, site.client_ca)
    end = time.monotonic() + 60
    while site.run("job", "list", *site.options(new)).returncode != 0:
        assert time.monotonic() < end, "the new authority is not taken"
    assert "does not accept the certificate" in site.refused(old)


def test_a_worker_ends_with_the_certificate_by_which_it_joined(site: Site, tmp_path: pathlib.Path) -> None:
    pair = site.authority.issue(LAUNCHER, seconds=15)
    worker = site.start(
        sys.executable, str(PROGRAMS / "stepping.py"), str(tmp_path), **site.environment(pair), FARANDOLE_SIZE="1"
    )
    worker.expect(r"step \d+")
    assert worker.end() != 0
    assert f"the certificate of {LAUNCHER} expired at" in worker.output, worker.output


@pytest.mark.parametrize("tool", CLIENTS, ids=("python", "cpp"))
def test_a_client_proves_itself_by_its_certificate(site: Site, tool: List[str]) -> None:
    listed = site.start(*tool, "jobs", **site.environment(site.authority.issue(VIEWER)))
    listed.require_end(0)
    assert listed.output == "[]\n"
    refused = site.start(*tool, "jobs", **site.environment(site.authority.issue("spiffe://other.org/x")))
    refused.require_end(1)
    assert "of another trust domain" in refused.output, refused.output


def test_a_client_takes_its_next_certificate(site: Site, tmp_path: pathlib.Path) -> None:
    first, then = site.authority.issue(VIEWER, seconds=15), site.authority.issue(VIEWER)
    own = Pair(str(tmp_path / "own.pem"), str(tmp_path / "own.key"))
    shutil.copy(first.key, own.key)
    shutil.copy(first.certificate, own.certificate)
    stop = tmp_path / "stop"
    client = site.start(sys.executable, "-c", LISTS, str(stop), **site.environment(own))
    client.expect(r"first \[\]")
    shutil.copy(then.key, own.key)
    shutil.copy(then.certificate, own.certificate)
    end = time.monotonic() + 60
    while site.run("job", "list", *site.options(first)).returncode == 0:
        assert time.monotonic() < end, "the first certificate does not expire"
    stop.touch()
    client.require_end(0)
    assert "never refused" in client.output
