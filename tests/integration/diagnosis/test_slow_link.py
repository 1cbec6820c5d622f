"""Real jobs over hosts with networks of their own, one of which is slow: the coordinator names the host and the price."""

import json
import pathlib
import sys
import threading
import time
import urllib.request
from typing import Any, Callable, Dict, Optional

import harness
import hosts
from programs_run import Program

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "programs" / "diagnosed.py"
VERDICT_SECONDS = 60
# More than the window of half a minute.
EVEN_SECONDS = 40


class JobOverHosts:
    """A job of one rank on each host, and its diagnosis."""

    def __init__(self, start: Callable[..., Program], over: hosts.Namespaces, kind: str) -> None:
        command = [str(harness.CLI), "run", "--http", "auto", "--job", kind, *over.options(*(1 for _ in over.names))]
        self.program = start(*command, sys.executable, str(PROGRAM), kind)
        self.http = self.program.expect(r"http://(\S+?:\d+)").group(1)
        self.token = pathlib.Path(self.program.expect(r"token in (\S+)").group(1)).read_text(encoding="utf-8").strip()
        self.kind = kind
        self.program.expect("runs")

    def show(self) -> Dict[str, Any]:
        """The job, as /api/v1 has it."""
        url = f"http://{self.http}/api/v1/jobs/{self.kind}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def network_blocker(self) -> Optional[Dict[str, Any]]:
        """The verdict about the network, as soon as there is one."""
        until = time.monotonic() + VERDICT_SECONDS
        while time.monotonic() < until:
            for blocker in self.show()["diagnosis"]["blockers"]:
                if blocker["cause"] == "slow network":
                    return blocker
            threading.Event().wait(1)
        return None


def test_a_host_with_a_slow_link_is_named_with_its_price(
    start: Callable[..., Program], three_hosts: hosts.Namespaces
) -> None:
    three_hosts.slow_down(2, "40mbit")
    running = JobOverHosts(start, three_hosts, "network")
    blocker = running.network_blocker()
    assert blocker is not None, running.show()["diagnosis"]
    # The hosts are one machine, whose name says nothing.
    assert blocker["host"].endswith(" (rank 2)"), blocker
    assert " sends and receives " in blocker["sentence"], blocker
    # In each step 1.4 MB go each way, some 0.3 s at 40 Mbit/s, beside 50 ms of the program's own.
    assert 33 <= blocker["lost_seconds_a_minute"] <= 58, blocker
    assert 55 <= blocker["percent"] <= 97, blocker
    diagnosis = running.show()["diagnosis"]
    assert [one["cause"] for one in diagnosis["blockers"]] == ["slow network"], diagnosis


def test_a_link_that_becomes_slow_is_dated(start: Callable[..., Program], three_hosts: hosts.Namespaces) -> None:
    running = JobOverHosts(start, three_hosts, "network")
    threading.Event().wait(20)
    slowed_unix_ms = time.time() * 1000
    three_hosts.slow_down(1, "40mbit")
    running.network_blocker()
    # So that little of the window lies before it.
    threading.Event().wait(15)
    blocker = running.network_blocker()
    assert blocker is not None and blocker["host"].endswith(" (rank 1)"), running.show()["diagnosis"]
    assert abs(blocker["since_unix_ms"] - slowed_unix_ms) < 4000, (blocker, slowed_unix_ms)


def test_an_even_network_raises_no_alarm(start: Callable[..., Program], three_hosts: hosts.Namespaces) -> None:
    running = JobOverHosts(start, three_hosts, "network")
    threading.Event().wait(EVEN_SECONDS)
    job = running.show()
    assert not job["diagnosis"]["blockers"], job["diagnosis"]
    assert job["diagnosis"]["now"]["steps"] > 100, job["diagnosis"]
    assert not [one for one in job["history"] if "slow network" in one["sentence"]], job["history"]


def test_of_two_hosts_with_one_slow_link_the_network_is_named(
    start: Callable[..., Program], own_hosts: hosts.Namespaces
) -> None:
    own_hosts.slow_down(1, "40mbit")
    running = JobOverHosts(start, own_hosts, "network")
    blocker = running.network_blocker()
    assert blocker is not None and "host" not in blocker, running.show()["diagnosis"]
    assert "no host stands out: slow network between the hosts" in blocker["sentence"], blocker
    assert 33 <= blocker["lost_seconds_a_minute"] <= 58, blocker
