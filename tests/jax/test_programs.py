"""Programs of JAX as jobs of their own: with a worker that is killed, elastic, and the examples."""

import pathlib
import subprocess
import sys
from typing import List

import harness
import imports
import numpy
import pytest

KILLED = """
import os, signal
import farandole.jax as hvd
import jax
import jax.numpy as jnp

hvd.init()
step = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))

for number in range(5):
    if hvd.rank() == 1 and number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        assert step(jnp.ones(3))[0] == 2
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        print(f"told at step {number}: {error}", flush=True)
        break
try:
    hvd.allreduce(jnp.ones(3))
except hvd.EpochEnded as error:
    print(f"told outside: {error}", flush=True)
"""

AGAIN = """
import os
import farandole.jax as hvd
import jax
import jax.numpy as jnp

mine = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
everyone = jax.jit(lambda x: hvd.allgather(x))
hvd.init([mine])
assert everyone(jnp.ones(1)).shape == (1,)
hvd.shutdown()
hvd.init()
assert everyone(jnp.ones(1)).shape == (2,), "the program of a job of one"
print("good", flush=True)
"""

ELASTIC = """
import os, signal
import farandole.jax as hvd
import jax
import jax.numpy as jnp

hvd.init()
state = hvd.elastic.JaxState(weights={"w": jnp.zeros(1)}, key=jax.random.key(hvd.rank()), step=0)

@jax.jit
def update(weights):
    # The program holds the number of ranks.
    everyone = hvd.allgather(jnp.ones(1))
    assert everyone.shape == (hvd.size(),)
    return {"w": weights["w"] + hvd.allreduce(jnp.ones(1)) * everyone.sum() / hvd.size()}

@hvd.elastic.run
def train(state):
    while state.step < 6:
        if hvd.rank() == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        state.weights = update(state.weights)
        state.step += 1
        state.commit()
    return hvd.size()

size = train(state)
key = jax.random.key_data(state.key).tolist()
print(f"ended with {size} ranks, step {state.step}, weights {state.weights['w'][0]:.0f}, key {key}", flush=True)
"""

# The loss shows when somebody waits for the last step, which the function itself does not.
# JAX runs small programs at once, and others behind the caller's back.
LOST_AT_THE_END = (
    ELASTIC.replace("state.step == 3", "state.step == 5")
    .replace("        state.commit()", "        if state.step <= 3:\n            state.commit()")
    .replace('{"w": weights["w"] +', '{"w": weights["w"] + 0 * large(weights["w"]) +')
    .replace("@jax.jit", "def large(w):\n    return jnp.sin(w * jnp.arange(4e6)).sum()\n\n@jax.jit", 1)
)

REPLACED = ELASTIC.replace(
    "if hvd.rank() == 1 and state.step == 3:", "if int(os.environ['FARANDOLE_LAUNCH_INDEX']) == 1 and state.step == 3:"
)

RESET = """
import os, signal
import farandole.jax as hvd
import jax
import jax.numpy as jnp
from farandole.elastic import HostUpdateResult

hvd.init()
state = hvd.elastic.JaxState(step=0)


def on_reset():
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))(jnp.ones(1)).block_until_ready()


@hvd.elastic.run
def train(state):
    while state.step < 3:
        hvd.allreduce(jnp.ones(1))
        state.step += 1
        if hvd.size() == 2:
            state.on_hosts_updated(1, HostUpdateResult.removed)  # all ranks go on in a new epoch
        state.commit()


state.register_reset_callbacks([on_reset])
train(state)
print(f"ended with {hvd.size()} ranks, step {state.step}", flush=True)
"""


def run(tmp_path: pathlib.Path, program: str, *options: str) -> str:
    """Runs a program with two workers, and returns its output."""
    result = harness.run_program(tmp_path, program, *options)
    return result.stdout + result.stderr


def test_a_killed_worker_is_named_to_a_program_and_outside(tmp_path: pathlib.Path) -> None:
    output = run(tmp_path, KILLED)
    assert "told at step 3: ABORTED" in output and "rank 1 (pid" in output, output
    assert "told outside: " in output, output


def test_an_elastic_function_goes_on_after_a_loss(tmp_path: pathlib.Path) -> None:
    output = run(tmp_path, ELASTIC, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert "ended with" in output and "step 6, weights 6, key [0, 0]" in output, output


def test_a_loss_after_the_last_commit_goes_back_to_it(tmp_path: pathlib.Path) -> None:
    output = run(tmp_path, LOST_AT_THE_END, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert "ended with" in output and "step 6, weights 6, key [0, 0]" in output, output


def test_a_worker_may_die_in_a_reset_callback(tmp_path: pathlib.Path) -> None:
    output = run(tmp_path, RESET, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert "ended with 1 ranks, step 3" in output, output


def test_an_elastic_function_goes_on_with_a_replacement(tmp_path: pathlib.Path) -> None:
    output = run(tmp_path, REPLACED, "--min-np", "2", "--max-np", "2", "--reset-limit", "3")
    assert output.count("ended with 2 ranks, step 6, weights 6, key [0, 0]") == 2, output


def test_the_package_imports_no_framework_but_its_own(tmp_path: pathlib.Path) -> None:
    """JAX's module none of the others, and no library on top of JAX."""
    assert imports.imported_by(tmp_path, "farandole.jax", ["jax"]) == []
    code = "import sys, farandole.jax; print([name for name in ('optax', 'flax', 'equinox') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_without_jax_the_import_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "jax.py").write_text("raise ImportError('there is none')", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, '{tmp_path}'); import farandole.jax"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "farandole.jax needs JAX" in result.stderr and "pip install jax" in result.stderr, result.stderr


@pytest.mark.parametrize("name", ["optax_mnist", "flax_mnist", "equinox_mnist"])
def test_an_example_trains_to_the_parameters_of_one_process(name: str, tmp_path: pathlib.Path) -> None:
    program = str(harness.ROOT / "examples" / "jax" / f"{name}.py")

    def trained(size: int, steps: int) -> List[numpy.ndarray]:
        saved = tmp_path / f"{size}.npz"
        arguments = ["--steps", str(steps), "--save", str(saved)]
        result = harness.run(harness.Setup(size), tmp_path / f"state{size}", sys.executable, program, *arguments)
        assert "test accuracy" in result.stdout, result.stdout
        return list(numpy.load(saved).values())

    start, found = trained(1, 0), [trained(size, 30) for size in (1, 2)]
    for before, one, two in zip(start, *found):
        assert numpy.abs(one - before).max() > 0.01, "training moves each of them"
        numpy.testing.assert_allclose(one, two, atol=1e-4)


def test_shuffled_orders_end(pytestconfig: pytest.Config) -> None:
    """Steps of 100 gradients, which each rank has in an order of its own: 100 steps, and 1,000 in make soak."""
    steps = 1000 if pytestconfig.getoption("--all-setups") else 100
    code = """
import random, sys
import farandole.jax as hvd, jax.numpy as jnp
hvd.init()
shuffled = random.Random(hvd.rank())
arrays = [jnp.full((50,), number) for number in range(100)]
order = list(range(100))
for _ in range(int(sys.argv[1])):
    shuffled.shuffle(order)
    handles = {number: hvd.allreduce_async(arrays[number], name=f"gradient.{number}") for number in order}
    arrays = [hvd.synchronize(handles[number]) for number in range(100)]
print("right", all((array == number).all() for number, array in enumerate(arrays)))
"""
    harness.require_cli()
    command = [str(harness.CLI), "run", "-np", "2", sys.executable, "-c", code, str(steps)]
    output = subprocess.check_output(command, text=True, timeout=harness.JOB_SECONDS)
    assert output.count("right True") == 2, output


def test_programs_are_compiled_again_for_the_ranks_of_the_next_init(tmp_path: pathlib.Path) -> None:
    output = run(tmp_path, AGAIN)
    assert output.count("good") == 2, output
