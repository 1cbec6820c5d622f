"""Programs of MXNet as jobs of their own: those for Horovod, with a worker that is killed, elastic, and the example."""

import os
import pathlib
import re
import subprocess
import sys
from typing import Dict

import harness
import imports
import numpy
import pytest

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"

KILLED = """
import os, signal
import horovod.mxnet as hvd
import mxnet as mx

hvd.init()
for number in range(5):
    if hvd.rank() == 1 and number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        assert (hvd.allreduce(mx.nd.ones(3), average=False, name="step") * 1).asnumpy()[0] == 2
    except (hvd.HorovodInternalError, mx.base.MXNetError) as error:
        assert isinstance(error, hvd.HorovodInternalError) and isinstance(error, mx.base.MXNetError)
        print(f"told at step {number}: {error}", flush=True)
        break
"""

ELASTIC = """
import os, signal
import farandole.mxnet as hvd
import mxnet as mx

hvd.init()
mx.random.seed(hvd.rank())
net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
net.initialize(mx.init.Constant(hvd.rank() + 0.0))
params = net.collect_params()
trainer = hvd.DistributedTrainer(params, "sgd", {"learning_rate": 1.0, "momentum": 0.5})
state = hvd.elastic.MxnetState(params, trainer, step=0)

@hvd.elastic.run
def train(state):
    while state.step < 6:
        if KILLS and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        with mx.autograd.record():
            loss = net(mx.nd.ones((1, 2)))
        loss.backward()
        trainer.step(1)
        state.step += 1
        state.commit()
    return hvd.size()

size = train(state)
weights = net.weight.data().asnumpy()[0].tolist()
print(f"ended with {size} ranks, step {state.step}, weights {weights}", flush=True)
"""

# A gradient that stays the same moves a weight by the learning rate in each step, if the step's number is known.
ADAM = ELASTIC.replace('"sgd", {"learning_rate": 1.0, "momentum": 0.5}', '"adam", {"learning_rate": 1.0}')

# With amp.init() in the place of the first line, the operators would compute with 16 bits.
MIXED = ELASTIC.replace(
    "state = hvd",
    """import mxnet.contrib.amp
mx.contrib.amp.amp._amp_initialized = mx.contrib.amp.amp._amp_loss_scale_initialized = True
mx.contrib.amp.init_trainer(trainer)
state = hvd""",
).replace(
    """            loss = net(mx.nd.ones((1, 2)))
        loss.backward()
""",
    """            with mx.contrib.amp.scale_loss(net(mx.nd.ones((1, 2))), trainer) as loss:
                loss.backward()
""",
)

# The gradient is 1 on all ranks, and so is their mean: each step takes 1 off the weight, with however many ranks.
OPTIMIZER = """
import os, signal
import farandole.mxnet as hvd
import mxnet as mx

hvd.init()
optimizer = hvd.DistributedOptimizer(mx.optimizer.create("sgd", learning_rate=1.0))
update = mx.optimizer.get_updater(optimizer)
state = hvd.elastic.ObjectState(step=0, weight=0.0)

@hvd.elastic.run
def train(state):
    while state.step < 6:
        if hvd.rank() == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        weight = mx.nd.array([state.weight])
        update(0, mx.nd.ones(1), weight)
        state.weight = float(weight.asscalar())
        state.step += 1
        state.commit()

train(state)
print(f"ended with {hvd.size()} ranks, weight {state.weight:g}, unwrapped {optimizer.unwrap().rescale_grad:g}", flush=True)
"""


def weights_after(steps: int) -> float:
    """Of SGD with a gradient of 1, a rate of 1 and a momentum of 1/2, from 0 on."""
    weight = velocity = 0.0
    for _ in range(steps):
        velocity = velocity * 0.5 - 1
        weight += velocity
    return weight


def run(folder: pathlib.Path, *words: object, **variables: str) -> str:
    """Runs `farandole run WORDS`, and returns what it says, stderr last."""
    harness.require_cli()
    command = [str(harness.CLI), "run", "--state-dir", str(folder / "state"), *map(str, words)]
    environment: Dict[str, str] = {**os.environ, **variables}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=harness.JOB_SECONDS, check=False, env=environment
    )
    return result.stdout + result.stderr


def run_program(folder: pathlib.Path, program: str, *options: str) -> str:
    result = harness.run_program(folder, program, *options)
    return result.stdout + result.stderr


def test_a_killed_worker_is_named_under_horovods_name(tmp_path: pathlib.Path) -> None:
    output = run_program(tmp_path, KILLED, "--horovod")
    assert "told at step 3: " in output and "rank 1 (pid" in output, output


def test_an_elastic_function_goes_on_after_a_loss(tmp_path: pathlib.Path) -> None:
    program = ELASTIC.replace("KILLS", "hvd.rank() == 1")
    output = run_program(tmp_path, program, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert "ended with" in output and f"step 6, weights {[weights_after(6)] * 2}" in output, output


def test_a_loss_after_the_last_commit_goes_back_to_it(tmp_path: pathlib.Path) -> None:
    program = ELASTIC.replace("KILLS", "hvd.rank() == 1").replace("state.step == 3", "state.step == 5")
    program = program.replace("        state.commit()", "        if state.step <= 3:\n            state.commit()")
    output = run_program(tmp_path, program, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert "ended with" in output and f"step 6, weights {[weights_after(6)] * 2}" in output, output


def test_an_optimizer_divides_by_the_ranks_that_are_left(tmp_path: pathlib.Path) -> None:
    output = run_program(tmp_path, OPTIMIZER, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert "ended with 1 ranks, weight -6, unwrapped 1" in output, output


def test_an_elastic_function_goes_on_with_a_replacement(tmp_path: pathlib.Path) -> None:
    program = ELASTIC.replace("KILLS", "int(os.environ['FARANDOLE_LAUNCH_INDEX']) == 1")
    output = run_program(tmp_path, program, "--min-np", "2", "--max-np", "2", "--reset-limit", "3")
    assert output.count(f"ended with 2 ranks, step 6, weights {[weights_after(6)] * 2}") == 2, output


def test_a_replacements_adam_goes_on_with_the_others(tmp_path: pathlib.Path) -> None:
    program = ADAM.replace("KILLS", "int(os.environ['FARANDOLE_LAUNCH_INDEX']) == 1")
    output = run_program(tmp_path, program, "--min-np", "2", "--max-np", "2", "--reset-limit", "3")
    found = re.findall(r"ended with 2 ranks, step 6, weights \[(\S+), (\S+)\]", output)
    assert len(found) == 2, output
    numpy.testing.assert_allclose(numpy.array(found, float), -6, atol=1e-3)


def test_losses_scaled_for_two_ranks_train_the_one_that_is_left(tmp_path: pathlib.Path) -> None:
    program = MIXED.replace("KILLS", "hvd.rank() == 1")
    output = run_program(tmp_path, program, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert f"ended with 1 ranks, step 6, weights {[weights_after(6)] * 2}" in output, output


@pytest.mark.parametrize("name", ["mxnet_gluon_mnist", "mxnet_mnist"])
def test_a_program_for_horovod_runs_unchanged(name: str, tmp_path: pathlib.Path) -> None:
    program = PROGRAMS / f"{name}.py"
    output = run(tmp_path, "--horovod", "-np", "2", sys.executable, PROGRAMS / "with_local_data.py", program)
    found = re.findall(r"ends with accuracy (\S+) and parameters (\S+)", output)
    assert len(found) == 2 and found[0][1] == found[1][1], output
    assert all(float(accuracy) > 0.4 for accuracy, _ in found), output


def test_horovods_modules_have_their_names() -> None:
    code = """
import horovod.mxnet as hvd
from horovod.mxnet.mpi_ops import allreduce, allreduce_, broadcast_, grouped_allreduce_, init, rank, size
from horovod.mxnet.functions import allgather_object, broadcast_object
from horovod.mxnet.compression import Compression
from horovod.common.util import extension_available
assert hvd.mpi_ops.allreduce is hvd.allreduce and hvd.functions.broadcast_object is hvd.broadcast_object
assert Compression.fp16 is hvd.Compression.fp16 and extension_available("mxnet")
hvd.init()
assert (hvd.size(), rank(), hvd.local_rank(), hvd.cross_size()) == (1, 0, 0, 1)
print("good")
"""
    dropin = harness.ROOT / "sdk" / "python" / "farandole" / "_dropin"
    environment = {**os.environ, "PYTHONPATH": str(dropin)}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment) == "good\n"


def test_the_example_trains_to_the_parameters_of_one_process(tmp_path: pathlib.Path) -> None:
    program = harness.ROOT / "examples" / "mxnet_fashion_mnist.py"
    found = []
    for size in (1, 2):
        saved = tmp_path / f"{size}.npz"
        arguments = ["--steps", "20", "--batch-size", "60", "--save", saved]
        output = run(tmp_path, "-np", size, sys.executable, program, *arguments)
        assert f"{size} workers: test accuracy" in output, output
        found.append(list(numpy.load(saved).values()))
    for one, two in zip(*found):
        assert numpy.abs(one).max() > 1e-4
        numpy.testing.assert_allclose(one, two, atol=1e-4)


def test_shuffled_orders_end_on_one_thread() -> None:
    """1,000 steps of 100 gradients, which each rank has in an order of its own."""
    code = """
import random
import farandole.mxnet as hvd, mxnet as mx
hvd.init()
shuffled = random.Random(hvd.rank())
arrays = [mx.nd.full((50,), number) for number in range(100)]
order = list(range(100))
for _ in range(1000):
    shuffled.shuffle(order)
    for number in order:
        hvd.allreduce_(arrays[number], name=f"gradient.{number}", priority=-number)
    mx.nd.waitall()
print("right", all((array == number).asnumpy().all() for number, array in enumerate(arrays)))
"""
    harness.require_cli()
    command = [str(harness.CLI), "run", "-np", "2", sys.executable, "-c", code]
    environment = {**os.environ, "MXNET_CPU_WORKER_NTHREADS": "1"}
    output = subprocess.check_output(command, text=True, env=environment, timeout=harness.JOB_SECONDS)
    assert output.count("right True") == 2, output


def test_a_naive_engine_runs_each_call_where_it_is_made() -> None:
    code = """
import farandole.mxnet as hvd, mxnet as mx
hvd.init()
results = [hvd.allreduce(mx.nd.full((3,), hvd.rank() + 1), op=hvd.Sum) for _ in range(5)]
gathered = hvd.allgather(mx.nd.ones((hvd.rank() + 1, 1)))
print(results[4].asnumpy().tolist(), gathered.shape)
"""
    harness.require_cli()
    command = [str(harness.CLI), "run", "-np", "2", sys.executable, "-c", code]
    environment = {**os.environ, "MXNET_ENGINE_TYPE": "NaiveEngine"}
    output = subprocess.check_output(command, text=True, env=environment, timeout=harness.JOB_SECONDS)
    assert output.count("[3.0, 3.0, 3.0] (3, 1)") == 2, output


def test_a_rank_that_leaves_first_has_done_its_part() -> None:
    """At exit, and where the program calls shutdown()."""
    code = """
import sys, time
import farandole.mxnet as hvd, mxnet as mx
hvd.init()
if hvd.rank() == 1:
    for _ in range(100):
        hvd.allreduce_(mx.nd.ones(100000))
    if sys.argv[1] == "shutdown":
        hvd.shutdown()
else:
    time.sleep(0.5)
    results = [hvd.allreduce_(mx.nd.ones(100000)) for _ in range(100)]
    print("sums", sum(float(each.sum().asscalar()) for each in results))
"""
    harness.require_cli()
    for how in ("shutdown", "exit"):
        command = [str(harness.CLI), "run", "-np", "2", sys.executable, "-c", code, how]
        result = subprocess.run(command, capture_output=True, text=True, timeout=harness.JOB_SECONDS, check=False)
        assert result.returncode == 0 and "sums 10000000.0" in result.stdout, result.stdout + result.stderr


# The thread that runs operations by their priority is at work while three calls come, and so all of them wait for it.
PRIORITIES = """
import json, pathlib, sys
import farandole.mxnet as hvd, mxnet as mx
from mxnet_checks.holding import PRIORITIZED, held

hvd.init()
reductions = "allreduce allreduce_ reducescatter".split()
moves = "allgather alltoall".split()
rooted = "broadcast broadcast_ gather scatter".split()
grouped = "grouped_allreduce grouped_allreduce_ grouped_reducescatter grouped_allgather".split()
calls = {each: getattr(hvd, each) for each in reductions + moves}
calls.update((each, lambda array, call=getattr(hvd, each), **terms: call(array, 0, **terms)) for each in rooted)
calls.update((each, lambda array, call=getattr(hvd, each), **terms: call([array], **terms)) for each in grouped)

path = pathlib.Path(sys.argv[0]).parent / "timeline.json"
hvd.start_timeline(str(path))
for name, call in calls.items():
    arrays = [mx.nd.ones((2, 2)) for _ in range(3)]
    mx.nd.waitall()
    with held(threads=PRIORITIZED):
        call(arrays[0], name=f"{name}.last", priority=-1)
        call(arrays[1], name=f"{name}.second")
        call(arrays[2], name=f"{name}.first", priority=1)
    mx.nd.waitall()
hvd.stop_timeline()

mine = path if hvd.rank() == 0 else path.with_suffix(f".rank{hvd.rank()}.json")
events = json.loads(mine.read_text())
rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
begun = [(event["ts"], rows[event["tid"]]) for event in events if event["name"].startswith("NEGOTIATE")]
order = [row for _, row in sorted(begun) if not row.endswith(".rows")]
for name in calls:
    found = [row.split(".")[2] for row in order if row.split(".")[1] == name]
    print("order of", name, "is" if found == ["first", "second", "last"] else "is not", *found, flush=True)
"""


def test_calls_of_higher_priority_go_first(tmp_path: pathlib.Path) -> None:
    """Of each operation."""
    threads = {"MXNET_CPU_PRIORITY_NTHREADS": "1", "MXNET_CPU_WORKER_NTHREADS": "1"}
    result = harness.run_program(tmp_path, PRIORITIES, **threads)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(" is first second last") == 2 * 13, result.stdout


TRAINS_AGAIN = """
import farandole.mxnet as hvd
import mxnet as mx

net = mx.gluon.nn.Dense(1, in_units=2)
net.initialize()
trainer = None
for life in range(2):
    hvd.init()
    if trainer is None or hvd.rank() == 1:
        trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(2):
        with mx.autograd.record():
            loss = net(mx.nd.ones((1, 2)) * (hvd.rank() + 1)).square()
        loss.backward()
        trainer.step(1)
    mx.nd.waitall()
    hvd.shutdown()
print("good", flush=True)
"""


def test_a_trainer_of_an_earlier_life_meets_a_new_one(tmp_path: pathlib.Path) -> None:
    """Ranks compare parameters once after each init()."""
    result = harness.run_program(tmp_path, TRAINS_AGAIN, FARANDOLE_STALL_LIMIT_MS="10000")
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout + result.stderr


def test_forked_data_loaders_and_the_worker_do_not_meet() -> None:
    code = """
import farandole.mxnet as hvd, mxnet as mx, numpy
hvd.init()
data = mx.gluon.data.ArrayDataset(numpy.arange(64, dtype="float32"))
loader = mx.gluon.data.DataLoader(data, batch_size=8, num_workers=2)
total = sum(hvd.allreduce(batch.sum(), op=hvd.Sum) for batch in loader)
print("total", float(total.asscalar()))
"""
    harness.require_cli()
    command = [str(harness.CLI), "run", "-np", "2", sys.executable, "-c", code]
    output = subprocess.check_output(command, text=True, timeout=harness.JOB_SECONDS)
    assert output.count("total 4032.0") == 2, output


def test_the_package_imports_no_framework_but_its_own(tmp_path: pathlib.Path) -> None:
    """MXNet's module none of the others."""
    assert imports.imported_by(tmp_path, "farandole.mxnet", ["mxnet"]) == []


def test_without_mxnet_the_import_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mxnet.py").write_text("raise ImportError('there is none')", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, '{tmp_path}'); import farandole.mxnet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "farandole.mxnet needs MXNet 1.9.1" in result.stderr and "pip install mxnet" in result.stderr, result.stderr
