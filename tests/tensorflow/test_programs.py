"""Programs of TensorFlow as jobs of their own: under Horovod's names, and with a worker that is killed."""

import pathlib
import re

import harness
import pytest

KILLED = """
import os, signal
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()

@tf.function(jit_compile=IS_COMPILED)
def step():
    return hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="step")

for number in range(5):
    if hvd.rank() == 1 and number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        assert step().numpy() == 2
    except tf.errors.AbortedError as error:
        print(f"told at step {number}: {error.message}", flush=True)
        break
"""


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_killed_worker_is_named_to_a_function_under_horovods_name(tmp_path: pathlib.Path, is_compiled: bool) -> None:
    program = KILLED.replace("IS_COMPILED", str(is_compiled))
    result = harness.run_program(tmp_path, program, "--horovod")
    assert "told at step 3: " in result.stdout and "rank 1 (pid" in result.stdout, result.stdout + result.stderr


ELASTIC = """
import os, signal
import farandole.tensorflow as hvd
import tensorflow as tf

hvd.init()
weights = tf.Variable([0.0])
state = hvd.elastic.TensorFlowState([weights], step=0)

@hvd.elastic.run
def train(state):
    # Its nodes hold the epoch's process sets: each epoch traces its own.
    @tf.function(jit_compile=IS_COMPILED)
    def step():
        weights.assign_add([hvd.allreduce(tf.constant(1.0), op=hvd.Average, name="step")])

    while state.step < 6:
        if hvd.rank() == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        step()
        state.step += 1
        state.commit()
    return hvd.size()

print(f"ended with {train(state)} ranks, step {state.step}, weights {weights.numpy()[0]:.0f}", flush=True)
"""


@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_elastic_function_goes_on_after_a_loss(tmp_path: pathlib.Path, is_compiled: bool) -> None:
    program = ELASTIC.replace("IS_COMPILED", str(is_compiled))
    result = harness.run_program(tmp_path, program, "--min-np", "1", "--max-np", "2", "--reset-limit", "1")
    assert "ended with" in result.stdout and "step 6, weights 6" in result.stdout, result.stdout + result.stderr


ONE_THREAD = """
import tensorflow as tf
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
import farandole.tensorflow as hvd

hvd.init()

@tf.function(jit_compile=True)
def first(value):
    return hvd.allreduce(value, op=hvd.Sum)

@tf.function(jit_compile=True)
def second(value):
    for _ in tf.range(10):
        value = hvd.allreduce(value, op=hvd.Average)
    return value

@tf.function
def step(value):
    # Each rank has another one ready first, and neither uses what the other gives.
    late = value
    for _ in range(30):
        late = tf.linalg.matmul(late, value)
    given = (late, value) if hvd.rank() % 2 else (value, late)
    others = [hvd.allreduce(given[0] * 0.0 + number, op=hvd.Sum) for number in range(10)]
    return first(given[0] * 0.0 + 1.0), second(given[1] * 0.0 + 3.0), others

for _ in range(50):
    total, mean, others = step(tf.eye(64))
    assert total.numpy()[0, 0] == 2 and mean.numpy()[0, 0] == 3.0
    assert [each.numpy()[0, 0] for each in others] == [2.0 * number for number in range(10)]
print("all steps ended", flush=True)
"""


def test_compiled_functions_need_one_thread_only(tmp_path: pathlib.Path) -> None:
    result = harness.run_program(tmp_path, ONE_THREAD)
    assert result.stdout.count("all steps ended") == 2, result.stdout + result.stderr


PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


@pytest.mark.parametrize("name", ["tensorflow_v1_session", "tensorflow2_elastic"])
def test_a_program_of_horovods_documentation_runs_unchanged(name: str, tmp_path: pathlib.Path) -> None:
    program = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    result = harness.run_program(tmp_path, program, "--horovod", *(["--min-np", "2"] if "elastic" in name else []))
    found = re.findall(r"rank \d ends lower, (\S+)", result.stdout)
    assert result.returncode == 0 and len(found) == 2 and len(set(found)) == 1, result.stdout + result.stderr
