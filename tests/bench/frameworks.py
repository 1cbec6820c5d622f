"""TensorFlow, JAX and MXNet, each with Farandole beside the framework's own way, in turns. Each has an environment of its own."""

import contextlib
import json
from typing import Dict, List, NamedTuple, Tuple

import groups
import measuring
from cells import FRAMEWORK_CELLS, CallGoal, Cell, Suite, Trained
from groups import RANKS, ROOT, Group, Launch
from report import FrameworkRow

SIZE = 2
MODEL = Trained("mlp", "training step, 25 M parameters")
# MultiWorkerMirroredStrategy cannot train a model of Keras 3.
KERAS = Trained("keras", "the same, by Keras's train_on_batch")
# Of frameworks that compile steps: in one step, and outside of any. Without communication, each call is an op that does
# nothing.
CHAIN = Trained("chain", "step of 100 calls of 4 B, each on the one before")
EAGER = Trained("eager", "100 eager calls of 4 B, each on the one before")
CALLS = 100
GOALS = {CHAIN.label: CallGoal("alone", CALLS, 20e-6), EAGER.label: CallGoal("c", CALLS, 15e-6)}


class Framework(NamedTuple):
    """A framework whose ranks run `ranks/NAME_rank.py`."""

    name: str
    label: str
    own: str
    """Its own way, for people; "": it has none here."""
    trained: Tuple[Trained, ...]
    """Its steps."""

    @property
    def python(self) -> str:
        """The interpreter that has it."""
        return str(ROOT / f".venv-{self.name}" / "bin" / "python")

    def command(self, way: str) -> List[str]:
        """A rank's."""
        return [self.python, str(RANKS / f"{self.name}_rank.py"), way]


FRAMEWORKS = [
    Framework("tensorflow", "TensorFlow", "MultiWorkerMirroredStrategy", (EAGER, CHAIN, MODEL, KERAS)),
    Framework("jax", "JAX", "jax.distributed, Gloo", (CHAIN, MODEL)),
    Framework("mxnet", "MXNet", "", (MODEL,)),
]


def why_not(framework: Framework) -> str:
    """Why it takes no part; "" where it does."""
    if (ROOT / f".venv-{framework.name}").is_dir():
        return ""
    return f"{framework.label} takes no part: .venv-{framework.name} is missing (make {framework.name})"


def _own_launch(framework: Framework) -> Launch:
    ports = [groups.free_port() for _ in range(SIZE)]
    workers = [f"127.0.0.1:{port}" for port in ports]
    environments: List[Dict[str, str]] = []
    for rank in range(SIZE):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        place = {"RANK": str(rank), "WORLD_SIZE": str(SIZE), "MASTER_PORT": str(ports[0])}
        environments.append({**place, "TF_CONFIG": json.dumps(config)} if framework.name == "tensorflow" else place)
    return Launch("own", SIZE, [framework.command("own")] * SIZE, environments)


def measure(framework: Framework, suite: Suite) -> List[FrameworkRow]:
    """Its rows."""
    measured: Dict[str, measuring.Times] = {}
    with contextlib.ExitStack() as stack:
        running: List[Group] = []
        launches = [groups.farandole_run("farandole", SIZE, framework.command("farandole"))]
        for launch in [*launches, *([_own_launch(framework)] if framework.own else [])]:
            running.append(Group(launch))
            stack.callback(running[-1].close)
        for cell in FRAMEWORK_CELLS:
            measured[cell.label] = measuring.measure_groups(cell, running, suite)
        ways = {"alone": running[0], **{group.name: group for group in running}}
        for trained in framework.trained:
            beside = {"c": lambda: CALLS * measuring.from_c(Cell(SIZE, 4), suite)} if trained is EAGER else {}
            able = {name: group for name, group in ways.items() if trained is not KERAS or name != "own"}
            measured[trained.label] = measuring.measure_steps(trained, able, suite, beside)
    rows = measured.items()
    return [FrameworkRow(framework.label, framework.own, what, times, GOALS.get(what)) for what, times in rows]
