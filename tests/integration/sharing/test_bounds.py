"""A tenant that floods a coordinator beside one that does not: bytes, memory, and how long the quiet one waits."""

import json
import pathlib
import re
import subprocess
import urllib.request
from typing import Any, Callable, Dict

import harness
import pytest
from coordinators import Coordinator

Serve = Callable[..., Coordinator]

NEIGHBOURS = pathlib.Path(harness.CLI).parents[1] / "lib" / "cpp" / "neighbours"
SECONDS = 10
# The programs of the test send no signs of life.
LONG_MS = "600000"
TENANT_QUEUED_MIB = 16
TENANT_KEPT_MIB = 32
# Beside what is counted: gRPC's buffers and messages that are parsed.
MOST_GROWTH_MIB = 192


def token_of(coordinator: Coordinator, tenant: str, directory: pathlib.Path) -> str:
    """Makes the tenant; its first token."""
    path = directory / tenant
    command = [str(harness.CLI), "tenant", "create", tenant, "--out", str(path), *coordinator.options()]
    subprocess.run(command, check=True, timeout=60)
    return path.read_text(encoding="utf-8").strip()


def resident_mib(pid: int) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) / 1024


def play(part: str, coordinator: Coordinator, token: str, under: "list[str]") -> "subprocess.Popen[str]":
    command = [*under, str(NEIGHBOURS), part, coordinator.address, token, str(SECONDS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told(program: "subprocess.Popen[str]") -> Dict[str, Any]:
    output, _ = program.communicate(timeout=SECONDS + 120)
    assert program.returncode == 0, output
    return dict(json.loads(output))


def metrics(coordinator: Coordinator) -> Dict[str, float]:
    token = pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(f"http://{coordinator.http}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def of_tenant(rows: Dict[str, float], metric: str, tenant: str) -> Dict[str, float]:
    pattern = re.compile(metric + r'\{kind="(\w+)",tenant="' + tenant + r'"\}')
    return {match.group(1): value for name, value in rows.items() if (match := pattern.fullmatch(name))}


def test_a_greedy_tenant_is_bounded_and_a_quiet_one_served(
    serve: Serve, tmp_path: pathlib.Path, record_property: Callable[[str, object], None]
) -> None:
    coordinator = serve(
        FARANDOLE_SILENCE_LIMIT_MS=LONG_MS,
        FARANDOLE_TENANT_QUEUED_MIB=str(TENANT_QUEUED_MIB),
        FARANDOLE_TENANT_KEPT_MIB=str(TENANT_KEPT_MIB),
    )
    quiet, greedy = (token_of(coordinator, tenant, tmp_path) for tenant in ("quiet", "greedy"))
    alone = told(play("quiet", coordinator, quiet, []))
    before = resident_mib(coordinator.program.pid)
    # The flood comes from other machines in life; here it has the processors that nobody else wants.
    flood = play("greedy", coordinator, greedy, ["nice", "-n", "19"])
    beside = told(play("quiet", coordinator, quiet, []))
    grown = resident_mib(coordinator.program.pid) - before
    what = told(flood)
    rows = metrics(coordinator)

    for kind in ("join", "negotiation", "heartbeat"):
        print(f"{kind}: alone {alone[kind]}, beside a flood {beside[kind]}")
    print(f"the flood: {what}; memory grew by {grown:.0f} MiB")
    record_property("beside", beside)
    assert what["sent"] > 1000, what
    assert sum(of_tenant(rows, "farandole_sheds_total", "greedy").values()) > 0, "it never came to its limit"
    assert sum(of_tenant(rows, "farandole_sheds_total", "quiet").values()) == 0
    held = of_tenant(rows, "farandole_held_bytes", "greedy")
    assert sum(held.values()) <= (2 * TENANT_QUEUED_MIB + TENANT_KEPT_MIB) << 20, held
    assert grown < MOST_GROWTH_MIB, what
    # Nothing of the quiet one was refused or took long; how much longer is measured, on machines that others do not use.
    assert min(beside[kind]["calls"] for kind in beside) > 0
    assert beside["negotiation"]["p50_us"] < 1e6, beside


if __name__ == "__main__":
    pytest.main([__file__, "-s"])
