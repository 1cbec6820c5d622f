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
    """A job of one rank on each of three hosts, and its diagnosis."""

    def __init__(self, start: Callable[..., Program], three_hosts: hosts.Namespaces, kind: str) -> None:
        command = [str(harness.CLI), "run", "--http", "auto", "--job", kind, *three_hosts.options(1, 1, 1)]
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
    print(json.dumps(running.show(), indent=1))
    assert blocker is not None, running.show()["diagnosis"]


def test_an_even_network_raises_no_alarm(start: Callable[..., Program], three_hosts: hosts.Namespaces) -> None:
    running = JobOverHosts(start, three_hosts, "network")
    threading.Event().wait(EVEN_SECONDS)
    diagnosis = running.show()["diagnosis"]
    print(json.dumps(diagnosis, indent=1))
    assert not diagnosis["blockers"], diagnosis
