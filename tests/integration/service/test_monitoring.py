"""deploy/monitoring beside a running coordinator: each metric is there with the labels that are used, and promtool and
Prometheus' parser take each expression."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request
from typing import Callable, Dict, Iterator, List, Set

import harness
import pytest
from coordinators import Coordinator
from programs_run import Program

MONITORING = harness.ROOT / "deploy" / "monitoring"
RULES = MONITORING / "farandole-rules.yml"
PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"
# Those that Prometheus adds when it scrapes, and Grafana's variables.
SCRAPED = {"instance", "job"}
VARIABLES = {"$__rate_interval": "5m", "$tenant": ".*"}
# In the metrics of a coordinator on a machine without GPUs, which only their jobs have.
OF_GPUS = re.compile(r"farandole_job_gpu")


def panels() -> List[str]:
    """The dashboard's expressions."""
    board = json.loads((MONITORING / "farandole-dashboard.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(expressions) > 10
    for name, value in VARIABLES.items():
        expressions = [expression.replace(name, value) for expression in expressions]
    return expressions


def alerts() -> List[str]:
    """The rules' expressions."""
    found = re.findall(r"^ +expr: (.*)$", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == RULES.read_text(encoding="utf-8").count("- alert:") > 5
    return found


def served(coordinator: Coordinator) -> Dict[str, Set[str]]:
    """The metrics that there are, each with its labels."""
    token = pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(f"http://{coordinator.http}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read().decode()
    found: Dict[str, Set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def used(expression: str) -> Iterator["tuple[str, Set[str]]"]:
    """The metrics of an expression, each with the labels that it must have: its own selector's, and those of the
    aggregations of an expression that has one metric."""
    selectors = re.findall(r"\b(farandole_\w+)(?:\{([^}]*)\})?", expression)
    names = {name for name, _ in selectors}
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", expression))))
    for name, labels in selectors:
        yield name, set(re.findall(r"(\w+)\s*[=!]", labels)) | (grouped if len(names) == 1 else set())


def documented() -> Dict[str, Set[str]]:
    """docs/metrics.md, which is written from the coordinator's table."""
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", (harness.ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
    return {name: set(re.findall(r"\w+", labels)) for name, labels in rows}


def test_each_metric_that_is_used_is_there_with_its_labels(
    start: Callable[..., Program], serve: Callable[..., Coordinator]
) -> None:
    coordinator = serve()
    command = [str(harness.CLI), "run", "-np", "1", "--job", "one", *coordinator.options()]
    start(*command, sys.executable, str(PROGRAMS / "client_job.py"), "leave").require_end(0)
    there, told = served(coordinator), documented()
    for expression in panels() + alerts():
        metrics = list(used(expression))
        assert metrics or expression.startswith("up{"), expression
        for name, labels in metrics:
            if OF_GPUS.match(name):
                there.setdefault(name, told[name])
            assert name in there, f"{expression}: the coordinator has no {name}"
            missing = labels - there[name] - SCRAPED
            assert not missing, f"{expression}: {name} has no label {missing}, but {there[name]}"


def test_the_check_sees_a_metric_or_a_label_that_is_not_there() -> None:
    (name, labels), *_ = used('sum by (tenant) (rate(farandole_nothing_total{state="failed"}[5m]))')
    assert (name, labels) == ("farandole_nothing_total", {"tenant", "state"})


def promtool(*words: str) -> "subprocess.CompletedProcess[str]":
    if shutil.which("promtool") is None:
        pytest.fail("there is no promtool: `make browser` installs Debian's package prometheus")
    return subprocess.run(
        ["promtool", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def test_promtool_takes_the_rules_and_the_panels(tmp_path: pathlib.Path) -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0 and f"{len(alerts())} rules found" in checked.stdout, checked.stdout
    recorded = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(panels())]
    # JSON is YAML as well.
    as_rules = tmp_path / "panels.yml"
    as_rules.write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}), encoding="utf-8")
    checked = promtool("check", "rules", str(as_rules))
    assert checked.returncode == 0 and f"{len(recorded)} rules found" in checked.stdout, checked.stdout
    recorded[0]["expr"] += " )"
    as_rules.write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}), encoding="utf-8")
    assert promtool("check", "rules", str(as_rules)).returncode != 0


def test_an_alert_fires_when_it_should_and_not_before(tmp_path: pathlib.Path) -> None:
    test = {
        "rule_files": [str(RULES)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": 'up{job="farandole", instance="a"}', "values": "1x5 0x10"},
                    {"series": 'farandole_store_writable{instance="a"}', "values": "1x5 0x10"},
                ],
                "alert_rule_test": [
                    {"eval_time": "4m", "alertname": "FarandoleDown", "exp_alerts": []},
                    {"eval_time": "4m", "alertname": "FarandoleStoreIsFull", "exp_alerts": []},
                ],
            }
        ],
    }
    for name in ("FarandoleDown", "FarandoleStoreIsFull"):
        text = RULES.read_text(encoding="utf-8").split(f"- alert: {name}\n")[1].split("- alert:")[0]
        summary = re.search(r"summary: (.*)", text).group(1).replace("{{ $labels.instance }}", "a")
        description = re.search(r"description: (.*)", text).group(1)
        labels = {"severity": "critical", "instance": "a", **({"job": "farandole"} if name == "FarandoleDown" else {})}
        fired = {"exp_labels": labels, "exp_annotations": {"summary": summary, "description": description}}
        rows = test["tests"][0]["alert_rule_test"]
        rows.append({"eval_time": "12m", "alertname": name, "exp_alerts": [fired]})
    (tmp_path / "test.yml").write_text(json.dumps(test), encoding="utf-8")
    checked = promtool("test", "rules", str(tmp_path / "test.yml"))
    assert checked.returncode == 0, checked.stdout
