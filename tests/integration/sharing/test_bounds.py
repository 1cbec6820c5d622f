"""A tenant that floods a coordinator beside one that does not: bytes, memory, and how long the quiet one waits."""

import json
import pathlib
import re
import subprocess
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


def play(part: str, coordinator: Coordinator, token: str, under: "list[str]") -> "subprocess.Popen[str]":
    command = [*under, str(NEIGHBOURS), part, coordinator.address, token, str(SECONDS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told(program: "subprocess.Popen[str]") -> Dict[str, Any]:
    output, _ = program.communicate(timeout=SECONDS + 120)
    assert program.returncode == 0, output
    return dict(json.loads(output))


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
    quiet, greedy = (coordinator.make_tenant(str(harness.CLI), tenant, tmp_path) for tenant in ("quiet", "greedy"))
    alone = told(play("quiet", coordinator, quiet, []))
    before = coordinator.resident_mib()
    # The flood comes from other machines in life; here it has the processors that nobody else wants.
    flood = play("greedy", coordinator, greedy, ["nice", "-n", "19"])
    beside = told(play("quiet", coordinator, quiet, []))
    grown = coordinator.resident_mib() - before
    what = told(flood)
    rows = coordinator.metrics()

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
