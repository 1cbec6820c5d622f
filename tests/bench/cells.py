"""The cells that the benchmark measures, and the goals that they are held to."""

from typing import Dict, List, NamedTuple, Optional


class Goal(NamedTuple):
    """How many times faster than its peer Farandole has to be: the goals of the project's first table, each over the peer's
    figure beside it, which were measured on another day on such a machine."""

    c: Optional[float] = None
    """`farandole bench` and Open MPI in C."""
    python: Optional[float] = None
    """Farandole and torch.distributed over Gloo, both from torch."""


class Cell(NamedTuple):
    """A collective of some size: one row of a table."""

    size: int
    """Ranks, all on this host."""
    count_bytes: int
    """Of one tensor."""
    dtype: str = "f32"
    kind: str = "one"
    """"one" tensor; "many", submitted one by one; "flat": many in one call, or packed by the program; or "arena": one in
    Farandole's shared memory, beside one in a peer's ordinary memory, from C only."""
    tensors: int = 1
    goal: Goal = Goal()

    @property
    def count(self) -> int:
        """Elements of one tensor."""
        return self.count_bytes // {"f32": 4, "f16": 2}[self.dtype]

    @property
    def label(self) -> str:
        """The row's name."""
        dtype = "" if self.dtype == "f32" else {"f16": "float16, "}[self.dtype]
        many = {"one": "", "many": f"{self.tensors} tensors of ", "flat": f"{self.tensors} tensors in one call, of "}
        many["arena"] = "in an arena, "
        return f"{dtype}{many[self.kind]}{show_bytes(self.count_bytes)}"

    @property
    def needs_barrier(self) -> bool:
        """As in deploy/bench/measure.cc: writing the buffers puts ranks behind each other."""
        return self.count_bytes * self.tensors > 32 << 10

    def order(self) -> Dict[str, object]:
        """The order to a rank, except for the steps."""
        return {
            "do": "collective",
            "kind": self.kind,
            "dtype": self.dtype,
            "count": self.count,
            "tensors": self.tensors,
        }


class Trained(NamedTuple):
    """A model that is trained by 2 ranks: one row of the table of training."""

    model: str
    label: str


class CallGoal(NamedTuple):
    """How much a framework's call may take more than something else."""

    above: str
    """The way that it is compared with: a key of the row's times."""
    calls: int
    """In the time of a row."""
    seconds: float


class Suite(NamedTuple):
    """All that one run measures."""

    cells: List[Cell]
    models: List[Trained]
    rates: List[str]
    """Of the link between two hosts, as tc has them."""
    rounds: int
    seconds: float
    """How long one contender is measured in one round of a cell."""
    train_steps: int
    bursts: int
    """Of one contender in one round; 0: none."""
    frameworks: bool
    """Whether TensorFlow, JAX and MXNet are measured too: importing them takes half a minute."""
    cpu: bool
    """Whether what the ranks cost while they have nothing to do is measured too."""
    limit_s: int
    """Whatever takes longer hangs, or has no processor to itself."""


KIB, MIB = 1 << 10, 1 << 20


def show_bytes(count: int) -> str:
    """ "4 B", "64 KiB", "256 MiB"."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count // unit} {name}"
    return f"{count} B"


_GOALS = {
    4: Goal(0.65 / 0.8, 217 / 3),
    4 * KIB: Goal(3.1 / 2.5, 304 / 4),
    64 * KIB: Goal(18.5 / 11, 374 / 14),
    MIB: Goal(0.195 / 0.12, 1.07 / 0.14),
    16 * MIB: Goal(3.0 / 2.2, 17 / 2.5),
    64 * MIB: Goal(33 / 11, 65 / 12),
    256 * MIB: Goal(130 / 50, 242 / 56),
}
_GOALS_4 = {4: Goal(5 / 5, 580 / 15), 64 * KIB: Goal(60 / 30, 5.6 / 0.04), 64 * MIB: Goal(97 / 30, 153 / 32)}
HALF = Cell(2, 16 * MIB, dtype="f16", goal=Goal(None, 36 / 3))
MANY = Cell(2, 16 * KIB, kind="many", tensors=200, goal=Goal(None, 69 / 0.9))
FLAT = Cell(2, 16 * KIB, kind="flat", tensors=200, goal=Goal(None, 5.6 / 0.9))
# Of each framework.
FRAMEWORK_CELLS = [Cell(2, 4), Cell(2, 4 * MIB), Cell(2, 16 * KIB, kind="many", tensors=200)]
ARENA = Cell(2, 64 * MIB, kind="arena", goal=Goal(33 / 6))
# Of a burst's calls, from Python: 99 of 100 bursts of 2 ranks shall have a lower median.
BURST_GOAL_S = 4e-6
# Efficiency that training shall reach, by model.
TRAINING_GOALS = {"mlp": 0.9, "encoder": 0.95}

MODELS = [
    Trained("mlp", "25 M parameters in 14 tensors (linear layers)"),
    Trained("encoder", "25 M parameters in 98 tensors (transformer encoder)"),
    Trained("resnet", "residual network, 1.1 M parameters in 61 tensors"),
    Trained("transformer", "transformer, 4.2 M parameters in 51 tensors"),
]

FULL = Suite(
    cells=[
        *(Cell(2, count, goal=_GOALS.get(count, Goal())) for count in (4, 256, *sorted(_GOALS)[1:])),
        HALF,
        MANY,
        FLAT,
        ARENA,
        *(Cell(4, count, goal=_GOALS_4.get(count, Goal())) for count in (4, 64 * KIB, MIB, 64 * MIB)),
        *(Cell(8, count) for count in (4, 64 * KIB, 16 * MIB)),
    ],
    models=MODELS,
    rates=["1gbit", "10gbit"],
    rounds=5,
    seconds=0.3,
    train_steps=5,
    bursts=10,
    frameworks=True,
    cpu=True,
    limit_s=3600,
)
QUICK = Suite(
    cells=[*(Cell(2, count, goal=_GOALS[count]) for count in (4, 64 * KIB, 16 * MIB)), MANY],
    models=MODELS[:1],
    rates=[],
    rounds=3,
    seconds=0.05,
    train_steps=2,
    bursts=17,
    frameworks=False,
    cpu=False,
    limit_s=600,
)
