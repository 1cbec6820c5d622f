"""Where the worker library reads and writes: in TensorFlow's memory, as the addresses show that the adapter gives it."""

import contextlib
import ctypes
import math
from typing import Any, Callable, Dict, Iterator, List, NamedTuple
from unittest import mock

import farandole.tensorflow as hvd
import tensorflow as tf
from farandole import _options
from harness import Checks, expect_error

from tensorflow_checks.graphs import address

check = Checks()
v1 = tf.compat.v1

_I32, _I64, _F64, _ADDRESS = ctypes.c_int32, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_SHAPE = (ctypes.POINTER(_I64), _I32, _I32)  # with the element type
_REDUCTION = (_I32, _F64, _F64)


class _Tensor(ctypes.Structure):
    """farandole_tensor."""

    _fields_ = [("input", _ADDRESS), ("output", _ADDRESS), ("shape", ctypes.POINTER(_I64)), ("ndim", _I32)]


# The arguments of the functions of farandole.h behind the name.
_ARGUMENTS = {
    "allreduce": (_ADDRESS, _ADDRESS, *_SHAPE, *_REDUCTION, _I32, _I64),
    "grouped_allreduce": (ctypes.POINTER(_Tensor), _I32, _I32, *_REDUCTION, _I32, _I64, _ADDRESS),
    "broadcast": (_ADDRESS, _ADDRESS, *_SHAPE, _I32, _I32, _I64),
    "reducescatter": (_ADDRESS, _ADDRESS, *_SHAPE, *_REDUCTION, _I32, _I64, _ADDRESS),
    "allgather": (_ADDRESS, *_SHAPE, _I32, _I64, _ADDRESS),
    "alltoall": (_ADDRESS, *_SHAPE, _ADDRESS, _I32, _I32, _I64),
    "gather": (_ADDRESS, *_SHAPE, _I32, _I32, _I64),
    "scatter": (_ADDRESS, *_SHAPE, _I32, _I32, _I64),
}
_HAS_OUTPUT = ("allreduce", "broadcast", "reducescatter")


class Seen(NamedTuple):
    """The addresses of tensors with elements."""

    inputs: List[int]
    outputs: List[int]

    def note(self, function: str, arguments: Any) -> None:
        """Notes the tensors of a call of the worker library."""
        if function == "grouped_allreduce":
            for tensor in arguments[0][: arguments[1]]:
                if math.prod(tensor.shape[: tensor.ndim]):
                    self.inputs.append(tensor.input)
                    self.outputs.append(tensor.output)
            return
        has_output = function in _HAS_OUTPUT
        shape, ndim = arguments[1 + has_output : 3 + has_output]
        if math.prod(shape[:ndim]):
            self.inputs.append(arguments[0])
            self.outputs.extend(arguments[1:2] if has_output else [])


@contextlib.contextmanager
def watched() -> Iterator[Seen]:
    """Notes all that the adapter gives to the worker library meanwhile, which does its work as ever."""
    library = ctypes.CDLL(str(_options.library_beside("libfarandole_tensorflow.so")))
    library.farandole_adapter_replace.argtypes = [ctypes.c_char_p, _ADDRESS]
    library.farandole_adapter_replace.restype = _ADDRESS
    seen, kept = Seen([], []), []
    before: Dict[str, Any] = {}

    def replace(name: str, kind: Any, note: Callable[..., None]) -> None:
        def noting(first: Any, *arguments: Any) -> int:
            note(arguments)
            return forward(first, *arguments)

        function = kind(noting)
        kept.append(function)
        before[name] = library.farandole_adapter_replace(f"farandole_{name}".encode(), ctypes.cast(function, _ADDRESS))
        forward = kind(before[name])

    for name, arguments in _ARGUMENTS.items():
        kind = ctypes.CFUNCTYPE(_I64, ctypes.c_char_p, *arguments)
        replace(name, kind, lambda given, name=name: seen.note(name, given))
    replace("copy_result", ctypes.CFUNCTYPE(_I32, _I64, _ADDRESS), lambda given: seen.outputs.append(given[0]))
    try:
        yield seen
    finally:
        for name, function in before.items():
            library.farandole_adapter_replace(f"farandole_{name}".encode(), function)


CALLS: Dict[str, Callable[[Any], Any]] = {
    "allreduce": lambda given: [hvd.allreduce(given, op=hvd.Sum)],
    "grouped_allreduce": lambda given: hvd.grouped_allreduce([given, given], op=hvd.Sum),
    "broadcast": lambda given: [hvd.broadcast(given, 0)],
    "reducescatter": lambda given: [hvd.reducescatter(given, op=hvd.Sum)],
    "allgather": lambda given: [hvd.allgather(given)],
    "grouped_allgather": lambda given: hvd.grouped_allgather([given, given]),
    "alltoall": lambda given: [hvd.alltoall(given)],
    "gather": lambda given: [hvd.gather(given, 0)],
    "scatter": lambda given: [hvd.scatter(given, 0)],
}


@check.each(*CALLS)
def memory_is_shared_in_both_directions(name: str) -> None:
    """The library reads the argument and writes the result, also where it copies that from its own memory."""
    given = tf.ones([hvd.size() * 1024, 4])
    for way in (CALLS[name], tf.function(CALLS[name])):
        with watched() as seen:
            results = way(given)
        assert seen.inputs == [address(given)] * len(results), (name, seen)
        written = [address(each) for each in results if tf.size(each) > 0]
        assert sorted(seen.outputs) == sorted(written), (name, seen, written)


@check.each("eager", "function")
def gradients_of_a_tape_travel_from_where_they_are(way: str) -> None:
    weights = [tf.Variable(tf.ones([512, 4])), tf.Variable(tf.ones([300]))]
    noted: List[int] = []
    reduce = hvd.GradientExchange.reduce

    def noting(self: Any, gradients: Any, *arguments: Any, **options: Any) -> Any:
        gradients = list(gradients)
        looked = tf.py_function(lambda *given: noted.extend(map(address, given)), gradients, [])
        with tf.control_dependencies([] if tf.executing_eagerly() else [looked]):
            return reduce(self, gradients, *arguments, **options)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(tf.square(each)) for each in weights) * (hvd.rank() + 1.0)
        return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, weights)

    with mock.patch.object(hvd.GradientExchange, "reduce", noting), watched() as seen:
        results = (tf.function(step) if way == "function" else step)()
    assert all(each.numpy().min() == each.numpy().max() == hvd.size() * (hvd.size() + 1) for each in results)
    assert len(noted) == len(weights) and sorted(noted) == sorted(seen.inputs), (noted, seen)
    assert sorted(map(address, results)) == sorted(seen.outputs)
    # In a function nobody else holds the gradients: the results take their memory.
    assert way == "eager" or seen.inputs == seen.outputs


# ---- Variables that are broadcast in place --------------------------------------------------------------------------


@check.each("broadcast_", "broadcast_variables", "function")
def variables_receive_in_their_own_memory(way: str) -> None:
    variables = [tf.Variable(tf.fill([1 << 16], float(hvd.rank()))), tf.Variable(tf.fill([3, 2], hvd.rank()))]
    before = [address(each.read_value()) for each in variables]
    with watched() as seen:
        if way == "broadcast_variables":
            hvd.broadcast_variables(variables, hvd.size() - 1, inplace=True)
        else:
            call = tf.function(hvd.broadcast_) if way == "function" else hvd.broadcast_
            call(variables, hvd.size() - 1)
    assert set(before) <= set(seen.inputs) and set(before) <= set(seen.outputs), (before, seen)
    assert [address(each.read_value()) for each in variables] == before
    assert all((each.numpy() == hvd.size() - 1).all() for each in variables)


@check.each("variables", "references")
def variables_of_a_session_receive_in_their_own_memory(kind: str) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.Variable(tf.fill([1 << 16], float(hvd.rank())), use_resource=kind == "variables")
        give = hvd.broadcast_([variable], hvd.size() - 1)
        session.run(variable.initializer)
        with watched() as seen:
            for _ in range(2):
                assert (session.run(give)[0] == hvd.size() - 1).all()
        # The initializer's constant holds the first memory of one that is no reference.
        (_, first), (given, second) = zip(seen.inputs, seen.outputs)
        assert first == given == second, seen
        assert (session.run(variable) == hvd.size() - 1).all()


@check
def a_value_that_the_program_has_read_stays() -> None:
    variable = tf.Variable(tf.fill([1 << 16], float(hvd.rank())))
    value = variable.read_value()
    hvd.broadcast_([variable], hvd.size() - 1)
    assert (value.numpy() == hvd.rank()).all() and (variable.numpy() == hvd.size() - 1).all()


@check.each("eager", "function", "variables", "references")
def variables_that_cannot_be_broadcast_keep_their_values(way: str) -> None:
    """There is no such root, and ranks have other shapes."""
    wrong = tf.fill([hvd.rank() + 1], float(hvd.rank()))
    if way in ("eager", "function"):
        variable = tf.Variable(wrong)
        call = tf.function(hvd.broadcast_) if way == "function" else hvd.broadcast_
        expect_error(
            tf.errors.OpError, lambda: call([variable], 0, name="wrong") if hvd.size() > 1 else call([variable], 1)
        )
        assert variable.numpy().tolist() == [hvd.rank()] * (hvd.rank() + 1)
        return
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.Variable(wrong.numpy(), use_resource=way == "variables")
        give = hvd.broadcast_([variable], 0 if hvd.size() > 1 else 1)
        session.run(variable.initializer)
        expect_error(tf.errors.OpError, lambda: session.run(give))
        assert session.run(variable).tolist() == [hvd.rank()] * (hvd.rank() + 1)
