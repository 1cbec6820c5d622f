"""TensorFlow's adapter in a process that forks, that has used farandole before TensorFlow, or that lacks TensorFlow."""

import pathlib
import subprocess
import sys

import harness

FORKING = """
import multiprocessing, os
import tensorflow as tf
import farandole.tensorflow as hvd

hvd.init()

@tf.function
def total(value):
    return hvd.allreduce(value, op=hvd.Sum)

def refused(queue):
    # The threads of TensorFlow and of the worker are the parent's.
    try:
        hvd.allgather_object(1)
    except Exception as error:
        queue.put(str(error))

def rows():
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        yield from pool.imap(abs, range(-16, 0))

assert total(tf.constant(1.0)).numpy() == 2
queue = multiprocessing.get_context("fork").SimpleQueue()
child = multiprocessing.get_context("fork").Process(target=refused, args=(queue,))
child.start()
child.join()
assert child.exitcode == 0 and "fork" in queue.get()
for row in tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.float32)).prefetch(2):
    assert total(row).numpy() == 2 * row.numpy()
print("ended after a fork", flush=True)
"""


def test_children_and_the_worker_do_not_meet(tmp_path: pathlib.Path) -> None:
    result = harness.run_program(tmp_path, FORKING)
    assert result.stdout.count("ended after a fork") == 2, result.stdout + result.stderr


LATE = """
import farandole.numpy as np_hvd
import numpy
np_hvd.init()
assert np_hvd.allreduce(numpy.ones(3), op=np_hvd.Sum).tolist() == [2.0] * 3
import tensorflow as tf
import farandole.tensorflow as hvd
assert tf.function(lambda: hvd.allreduce(tf.ones([3]), op=hvd.Sum))().numpy().tolist() == [2.0] * 3
assert np_hvd.allreduce(numpy.ones(3), op=np_hvd.Sum).tolist() == [2.0] * 3
print("loaded late", flush=True)
"""


def test_tensorflow_may_be_loaded_after_init(tmp_path: pathlib.Path) -> None:
    result = harness.run_program(tmp_path, LATE)
    assert result.stdout.count("loaded late") == 2, result.stdout + result.stderr


def test_no_other_framework_is_imported() -> None:
    code = """
import sys, tensorflow
others = {"torch", "jax", "mxnet", "keras", "tf_keras"}
before = others & set(sys.modules)
import farandole.tensorflow
print(sorted((others & set(sys.modules)) - before))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
    code = "import sys, farandole, farandole.numpy; print('tensorflow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_without_tensorflow_the_import_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('there is none')", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, '{tmp_path}'); import farandole.tensorflow"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "farandole.tensorflow needs TensorFlow" in result.stderr, result.stderr
    assert "pip install tensorflow" in result.stderr, result.stderr
