"""Programs of TensorFlow as jobs of their own: under Horovod's names, and with a worker that is killed."""

import pathlib
import re
import sys

import harness
import numpy
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
    except tf.errors.AbortedError if IS_COMPILED else tf.errors.UnknownError as error:
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


FEW_THREADS = """
import tensorflow as tf
tf.config.threading.set_inter_op_parallelism_threads(THREADS)
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


@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_functions_need_few_threads_only(threads: int, tmp_path: pathlib.Path) -> None:
    result = harness.run_program(tmp_path, FEW_THREADS.replace("THREADS", str(threads)))
    assert result.stdout.count("all steps ended") == 2, result.stdout + result.stderr


PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


@pytest.mark.parametrize("name", ["tensorflow_v1_session", "tensorflow2_elastic"])
def test_a_program_of_horovods_documentation_runs_unchanged(name: str, tmp_path: pathlib.Path) -> None:
    program = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    result = harness.run_program(tmp_path, program, "--horovod", *(["--min-np", "2"] if "elastic" in name else []))
    found = re.findall(r"rank \d ends lower, (\S+)", result.stdout)
    assert result.returncode == 0 and len(found) == 2 and len(set(found)) == 1, result.stdout + result.stderr


NAMES = """
import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.compression import Compression, Compressor, FP16Compressor, NoneCompressor
from horovod.tensorflow.functions import allgather_object, broadcast_object, broadcast_object_fn, broadcast_variables
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper, apply_op_to_not_none_tensors
from horovod.tensorflow.gradient_aggregation import get_not_none_from_list
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.mpi_ops import (
    Adasum, Average, Max, Min, Product, ProcessSet, Sum, _allreduce, _grouped_allreduce, _grouped_reducescatter,
    _normalize_name, _reducescatter, add_process_set, allgather, alltoall, broadcast, broadcast_, ccl_built,
    check_num_rank_power_of_2, cross_rank, cross_size, cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled,
    grouped_allgather, handle_average_backwards_compatibility, init, is_homogeneous, is_initialized, join, local_rank,
    local_rank_op, local_size, local_size_op, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built,
    process_set_included_op, rank, rank_op, remove_process_set, rocm_built, shutdown, size, size_op, start_timeline,
    stop_timeline,
)
from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
from horovod.tensorflow.util import _cache, _executing_eagerly, _make_subgraph, refs_to_vars, vars_to_refs

assert hvd.mpi_ops.allgather is hvd.allgather and hvd.functions.broadcast_object is hvd.broadcast_object
assert Compression is hvd.Compression and SyncBatchNormalization is hvd.SyncBatchNormalization
assert hvd.LocalGradientAggregationHelper is LocalGradientAggregationHelper
assert issubclass(FP16Compressor, Compressor) and issubclass(NoneCompressor, Compressor)
assert _normalize_name("a/b:0") == "a_b_0" and check_num_rank_power_of_2(4) and not check_num_rank_power_of_2(3)
assert handle_average_backwards_compatibility(None, True) == Average
assert get_not_none_from_list([None, 1]) == [1] and apply_op_to_not_none_tensors(max, [None, 1], 2) == [None, 2]

init()
assert (size(), rank(), local_rank(), cross_size()) == (2, hvd.rank(), hvd.local_rank(), 1)
mine = tf.fill([4], rank() + 1.0)
assert _allreduce(mine, name="sum").numpy().tolist() == [3.0] * 4
assert _grouped_allreduce([mine], op=Average)[0].numpy().tolist() == [1.5] * 4
assert _reducescatter(mine, prescale_factor=2.0).numpy().tolist() == [6.0] * 2
assert _grouped_reducescatter([mine], op=Max)[0].numpy().tolist() == [2.0] * 2
variables = [tf.Variable(1.0), [tf.Variable(2.0)]]
references = vars_to_refs(variables)
assert refs_to_vars(references)[1][0] is variables[1][0] and len({references}) == 1
calls = []
@_cache
def made(number):
    calls.append(number)
    return _make_subgraph(lambda: tf.constant(number) + 1)
assert made(1) is made(1) and calls == [1] and made(1)().numpy() == 2 and _executing_eagerly()
sgd = tf.compat.v1.train.GradientDescentOptimizer(1.0)
assert isinstance(hvd.DistributedOptimizer(sgd), hvd._DistributedOptimizer)
assert isinstance(hvd.DistributedOptimizer(sgd, op=Adasum), hvd._DistributedAdasumOptimizer)
print("good", flush=True)
"""


def test_horovods_modules_have_their_names(tmp_path: pathlib.Path) -> None:
    result = harness.run_program(tmp_path, NAMES, "--horovod")
    assert result.stdout.count("good") == 2, result.stdout + result.stderr


KERAS_NAMES = """
import horovod.tensorflow.keras as hvd
import keras
import numpy
from horovod import _keras
from horovod._keras import callbacks, elastic

hvd.init()
optimizer = _keras.create_distributed_optimizer(
    keras, keras.optimizers.SGD(0.1), None, "", "", hvd.Compression.none, False, 1.0, hvd.Average, 1, groups=None
)

class Broadcast(callbacks.BroadcastGlobalVariablesCallbackImpl, keras.callbacks.Callback):
    def __init__(self, root_rank, device=""):
        super().__init__(keras.backend, root_rank, device)

class Mean(callbacks.MetricAverageCallbackImpl, keras.callbacks.Callback):
    def __init__(self, device=""):
        super().__init__(keras.backend, device)

class Schedule(callbacks.LearningRateScheduleCallbackImpl, keras.callbacks.Callback):
    def __init__(self, *arguments):
        super().__init__(keras.backend, *arguments)

class Warmup(callbacks.LearningRateWarmupCallbackImpl, keras.callbacks.Callback):
    def __init__(self, *arguments):
        super().__init__(keras.backend, *arguments)

class Commit(elastic.CommitStateCallbackImpl, keras.callbacks.Callback):
    def __init__(self, state, batches):
        super().__init__(keras.backend, state, batches)

class Batch(elastic.UpdateBatchStateCallbackImpl, keras.callbacks.Callback):
    def __init__(self, state):
        super().__init__(keras.backend, state)

class Epoch(elastic.UpdateEpochStateCallbackImpl, keras.callbacks.Callback):
    def __init__(self, state):
        super().__init__(keras.backend, state)

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile(optimizer, "mse")
state = hvd.elastic.KerasState(model, batch=0, epoch=0)
chosen = [Broadcast(0), Mean(), Warmup(0.1, 2), Schedule(0.1, 0.5, 1), Commit(state, 1), Batch(state), Epoch(state)]
inputs = numpy.full((4, 2), hvd.rank() + 1.0, "float32")
history = model.fit(inputs, inputs[:, :1], epochs=3, batch_size=4, verbose=0, callbacks=chosen).history
assert state.epoch == 3 and abs(float(model.optimizer.learning_rate) - 0.05) < 1e-6
told = hvd.allgather_object((history["loss"], [each.tolist() for each in model.get_weights()]))
assert told[0] == told[1], told
value = numpy.full(4, hvd.rank() + 1.0, "float32")
assert numpy.asarray(_keras.allreduce(keras.backend, value, "a", None, 1.0, 1.0, hvd.Sum, hvd.Compression.none)).tolist() == [3] * 4
assert numpy.asarray(_keras.allgather(keras.backend, value[:1], "b")).tolist() == [1, 2]
assert numpy.asarray(_keras.broadcast(keras.backend, value, 1, "c")).tolist() == [2] * 4
assert numpy.asarray(_keras.reducescatter(keras.backend, value, "d", hvd.Sum)).tolist() == [3] * 2
print("good", flush=True)
"""


def test_what_horovods_keras_modules_share_is_there(tmp_path: pathlib.Path) -> None:
    result = harness.run_program(tmp_path, KERAS_NAMES, "--horovod")
    assert result.stdout.count("good") == 2, result.stdout + result.stderr


def test_the_example_trains_to_the_parameters_of_one_process(tmp_path: pathlib.Path) -> None:
    program = harness.ROOT / "examples" / "tensorflow_fashion_mnist.py"
    found = []
    for size in (1, 2):
        saved = tmp_path / f"{size}.npz"
        command = [sys.executable, program, "--steps", "20", "--batch-size", "60", "--save", saved]
        result = harness.run(harness.Setup(size), tmp_path / f"state{size}", *map(str, command))
        assert f"{size} workers: test accuracy" in result.stdout, result.stdout
        found.append(list(numpy.load(saved).values()))
    for one, two in zip(*found):
        assert numpy.abs(one).max() > 1e-4
        numpy.testing.assert_allclose(one, two, atol=1e-4)
