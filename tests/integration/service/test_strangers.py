"""Connections without a token from many addresses, in a network of its own."""

import json
import pathlib
import subprocess
import sys
from typing import Callable, Sequence

import harness
import hosts
import pytest
from coordinators import Coordinator
from programs_run import Program

STRANGERS = pathlib.Path(__file__).resolve().parents[1] / "programs" / "strangers.py"
MANY = ("2001:db8:0:7::1", "2001:db8:0:7:a::2", "2001:db8:0:7:ffff:b::3")
OTHER = "2001:db8:0:8::1"
# Of one address.
MOST = 256


def under(addresses: Sequence[str]) -> "list[str]":
    """Before a command: it runs in a network of its own, whose loopback has these addresses too."""
    added = "".join(f" && ip -6 addr add {address}/64 dev lo" for address in addresses)
    return ["unshare", "--net", "sh", "-c", f'ip link set lo up{added} && exec "$@"', "-"]


def why_not() -> str:
    """Why no such network can be made here; "" where one can."""
    if reason := hosts.why_no_namespaces():
        return reason
    probe = subprocess.run([*under([OTHER]), "true"], capture_output=True, text=True, check=False)
    return probe.stderr.strip() if probe.returncode else ""


WHY_NOT = why_not()


@pytest.mark.skipif(WHY_NOT != "", reason=WHY_NOT)
def test_an_ipv6_network_has_the_places_of_one_address(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    state = tmp_path / "coordinator"
    command = ["serve", "--listen", "[::1]:0", "--http", "127.0.0.1:0", "--state-dir", str(state)]
    coordinator = Coordinator(start(*under([*MANY, OTHER]), str(harness.CLI), *command), state)
    inside = ["nsenter", f"--net=/proc/{coordinator.program.pid}/ns/net", sys.executable, str(STRANGERS)]
    strangers = start(*inside, coordinator.address, "88", *MANY, OTHER)
    strangers.require_end(0)
    told = json.loads(strangers.output)
    assert sum(told[address] for address in MANY) <= MOST, told
    assert told[OTHER] == 88, told
