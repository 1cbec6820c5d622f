"""The ops in what XLA compiles (jit_compile=True): custom calls, which XLA gives to the handlers of JAX's programs.

Each call takes a ticket that the call before it has left in a variable, and leaves one there itself. So the calls of a
process run in the order in which its functions state them, through calls of functions, loops and branches, whatever XLA
makes of the program on each rank (docs/decisions/0024-tensorflow-xla.md).
"""

import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.ops import control_flow_util

from .._library import check, lib
from ..process_sets import ranks_by_id
from ..reduce_ops import NAMES, Average, Max, Min, Sum

Attributes = Dict[str, Any]
Shape = Tuple[int, ...]

# Of XlaCallModule: the oldest that knows no dimension of unknown size by another name.
_MODULE_VERSION = 9

# The element types that travel, as StableHLO has them.
_ELEMENT_TYPES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint16": "ui16",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fn": "f8E4M3FN",
}


def is_compiled() -> bool:
    """Whether the op that is made now is in what XLA will compile."""
    if tf.executing_eagerly():
        return False
    return bool(control_flow_util.GraphOrParentsInXlaContext(tf_ops.get_default_graph()))


EXTREMA = (Min, Max)


def require_gradient(operation: str, op: int) -> None:
    """NotImplementedError: the reduction has no gradient."""
    if op not in (Average, Sum) and not (operation == "allreduce" and op in EXTREMA):
        raise NotImplementedError(
            f"{operation} with op={NAMES[op]} has no gradient in farandole; use Average or Sum, or tf.stop_gradient()"
        )


def factor_of(bits: int) -> float:
    """The double whose bits an attribute has."""
    return struct.unpack("=d", struct.pack("=q", bits))[0]


Reduction = Callable[[List[Any]], Sequence[Any]]


def gradients_of_extrema(
    given: List[Any],
    found: Sequence[Any],
    upstream: Sequence[Any],
    factors: Tuple[float, float],
    extrema: Reduction,
    total: Reduction,
) -> List[Any]:
    """Of tensors whose extrema over the ranks are `found`: the ranks that have an extremum share its gradient, the sum of
    all ranks' `upstream`, times both factors, those before and behind the reduction. `extrema` and `total` reduce tensors
    over the ranks, to the extrema and to sums."""
    prescale, postscale = factors
    if factors != (1.0, 1.0):
        # To the bit as the op has compared them: rounding would hide which rank has the extremum.
        given = [each * tf.cast(prescale, each.dtype) for each in given]
        found = extrema(given)
    have = [tf.cast(tf.equal(mine, extremum), extremum.dtype) for mine, extremum in zip(given, found)]
    sums = total([*upstream, *have])
    return [
        mask * gradient / count * tf.cast(prescale * postscale, mask.dtype)
        for mask, gradient, count in zip(have, sums[: len(have)], sums[len(have) :])
    ]


# ---- The custom call ------------------------------------------------------------------------------------------------


class _Ticket:
    """The variable through which the calls of this process follow each other."""

    variable: Optional[tf.Variable] = None

    @classmethod
    def take(cls, operation: str) -> tf.Variable:
        """It, which the first call makes, outside of all functions."""
        if not tf.compat.v1.executing_eagerly_outside_functions():
            raise NotImplementedError(
                f"{operation} cannot be compiled by XLA in a graph of tf.compat.v1; use jit_compile=False for the function "
                "that calls it"
            )
        if cls.variable is None:
            with tf.init_scope():
                cls.variable = tf.Variable([0], trainable=False, dtype=tf.uint8, name="farandole_ticket")
        return cls.variable


def _type(shape: Sequence[int], dtype: tf.DType) -> str:
    dimensions = "".join(f"{each}x" for each in shape)
    return f"tensor<{dimensions}{_ELEMENT_TYPES[dtype.name]}>"


def _quoted(text: str) -> str:
    """A string of MLIR."""
    kept = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())
    return f'"{kept}"'


def _configuration(attributes: Attributes) -> str:
    """The attributes that the handler reads. Doubles travel as their bits."""
    given = {
        "name": _quoted(attributes.get("tensor_name", "")),
        "disagreement": f"{lib.FARANDOLE_FAILED_PRECONDITION} : i64",
        "group": f"{attributes.get('process_set_id', 0)} : i64",
    }
    for name, key in (("reduce_op", "reduce_op"), ("root", "root_rank"), ("which", "which")):
        if key in attributes:
            given[name] = f"{attributes[key]} : i64"
    for name in ("prescale", "postscale"):
        bits = attributes.get(f"{name}_bits", 0x3FF0000000000000)
        given[name] = f"0x{bits & (1 << 64) - 1:016X} : f64"
    return ", ".join(f"{name} = {value}" for name, value in given.items())


def _module(operation: str, given: Sequence[str], made: Sequence[str], attributes: Attributes) -> str:
    """A program of StableHLO with one call."""
    arguments = ", ".join(f"%arg{index}: {each}" for index, each in enumerate(given))
    names = ", ".join(f"%arg{index}" for index in range(len(given)))
    results = ", ".join(f"%0#{index}" for index in range(len(made)))
    types, result_types = ", ".join(given), ", ".join(made)
    return (
        f"module @farandole {{ func.func public @main({arguments}) -> ({result_types}) {{ "
        f"%0:{len(made)} = stablehlo.custom_call @farandole_{operation}({names}) "
        f"{{api_version = 4 : i32, has_side_effect = true, backend_config = {{{_configuration(attributes)}}}}} "
        f": ({types}) -> ({result_types}) return {results} : {result_types} }} }}"
    )


def _require_handlers(operation: str) -> None:
    # The library is loaded by the module that imports this one.
    from ._ops_library import why_not_compiled

    reason = why_not_compiled()
    if reason is not None:
        raise NotImplementedError(
            f"{operation} cannot be compiled by XLA here: {reason}; use jit_compile=False for the function that calls it"
        )


def check_element_types(tensors: Sequence[tf.Tensor]) -> None:
    """ValueError: one of them cannot travel."""
    for tensor in tensors:
        name = tensor.dtype.base_dtype.name
        if name not in _ELEMENT_TYPES:
            raise ValueError(f"a tensor of {name} cannot be sent: farandole has no such element type")


def _require_known(operation: str, tensors: Sequence[tf.Tensor]) -> None:
    for tensor in tensors:
        if not tensor.shape.is_fully_defined():
            raise ValueError(
                f"{operation}: XLA must know the shape of a tensor that it sends, and here it is {tensor.shape}; give it one "
                "with tf.ensure_shape(), or use jit_compile=False for the function that calls it"
            )


def _call(operation: str, tensors: Sequence[tf.Tensor], made: Sequence[Any], attributes: Attributes) -> List[tf.Tensor]:
    """The results, of which `made` has the shapes and element types."""
    ticket = _Ticket.take(operation)
    given = [*tensors, ticket.read_value()]
    results = [*made, ((1,), tf.uint8)]
    module = _module(
        operation,
        [_type(each.shape, each.dtype) for each in given],
        [_type(shape, dtype) for shape, dtype in results],
        attributes,
    )
    *outputs, left = xla.call_module(
        given,
        version=_MODULE_VERSION,
        module=module,
        Tout=[dtype for _, dtype in results],
        Sout=[shape for shape, _ in results],
        platforms=["CPU"],
        # The program is the same on a GPU.
        disabled_checks=[xla.call_module_disable_check_platform()],
    )
    ticket.assign(left)
    return outputs


# ---- Shapes ---------------------------------------------------------------------------------------------------------


class _Group:
    """This rank's place in a process set."""

    def __init__(self, attributes: Attributes) -> None:
        ranks, own = ranks_by_id()[attributes["process_set_id"]], check(lib.farandole_rank())
        if own not in ranks:
            raise ValueError(f"Process is not part of provided process set: rank {own}, ranks {ranks}")
        self.size, self.position = len(ranks), ranks.index(own)
        self.is_root = own == attributes.get("root_rank")

    def share(self, rows: int) -> int:
        """This rank's part of so many rows."""
        return rows // self.size + (1 if self.position < rows % self.size else 0)


def _rows_of_result(operation: str, rows: int, group: _Group) -> int:
    if operation == "allgather":
        return rows * group.size
    if operation == "gather":
        return rows * group.size if group.is_root else 0
    if operation in ("reducescatter", "scatter"):
        return group.share(rows)
    if rows % group.size:
        raise ValueError(f"alltoall without splits: {rows} rows are not a multiple of {group.size} ranks")
    return rows


def _bind(
    operation: str, tensors: Sequence[tf.Tensor], attributes: Attributes, rows: Optional[Sequence[int]] = None
) -> List[tf.Tensor]:
    """The results of an operation on tensors; `rows`: of each result, where its argument does not tell."""
    _require_handlers(operation)
    _require_known(operation, tensors)
    if operation in ("allreduce", "broadcast"):
        return _differentiable(operation, tensors, [tuple(each.shape) for each in tensors], attributes)
    if operation in ("reducescatter", "scatter", "alltoall") and any(each.shape.rank == 0 for each in tensors):
        raise ValueError(f"{operation} needs a tensor with rows, not a scalar")
    tensors = [tf.reshape(each, [1]) if each.shape.rank == 0 else each for each in tensors]
    group = _Group(attributes)
    shapes = []
    for index, each in enumerate(tensors):
        own = rows[index] if rows is not None else _rows_of_result(operation, each.shape[0], group)
        shapes.append((own, *each.shape[1:]))
    return _differentiable(operation, tensors, shapes, attributes)


def _differentiable(
    operation: str, tensors: Sequence[tf.Tensor], shapes: Sequence[Shape], attributes: Attributes
) -> List[tf.Tensor]:
    made = [(shape, each.dtype) for shape, each in zip(shapes, tensors)]
    if not any(each.dtype.is_floating for each in tensors):
        return _call(operation, tensors, made, attributes)

    @tf.custom_gradient
    def call(*given: tf.Tensor) -> Any:
        outputs = _call(operation, given, made, attributes)

        def gradients(*upstream: tf.Tensor) -> List[tf.Tensor]:
            own = {**attributes, "tensor_name": f"{attributes['tensor_name']}.gradient"}
            if operation == "allreduce" and attributes["reduce_op"] in EXTREMA:
                return _adjoint_of_extrema(list(given), outputs, list(upstream), own)
            return _adjoint(operation, list(upstream), [tuple(each.shape) for each in given], own)

        return outputs, gradients

    return list(call(*tensors))


# ---- Gradients: those of gradients.py, in shapes that XLA knows -----------------------------------------------------


def _adjoint(operation: str, given: List[Any], shapes: List[Shape], attributes: Attributes) -> List[tf.Tensor]:
    if operation in ("allreduce", "reducescatter"):
        require_gradient(operation, attributes["reduce_op"])
    if operation == "allreduce":
        return _bind("allreduce", given, attributes)
    rows = [shape[0] if shape else 1 for shape in shapes]
    group = _Group(attributes)
    plain = {key: attributes[key] for key in ("tensor_name", "process_set_id")}
    if operation == "reducescatter":
        factor = factor_of(attributes["prescale_bits"]) * factor_of(attributes["postscale_bits"])
        factor *= group.size if attributes["reduce_op"] == Sum else 1
        return _bind("allgather", [each * tf.cast(factor, each.dtype) for each in given], plain, rows)
    if operation == "alltoall":
        return _bind("alltoall", given, plain)
    if operation == "gather":
        return _bind("scatter", given, {**plain, "root_rank": attributes["root_rank"]}, rows)
    if operation == "scatter":
        total = [each if group.is_root else 0 for each in rows]
        gathered = _bind("gather", given, {**plain, "root_rank": attributes["root_rank"]}, total)
        return gathered if group.is_root else [tf.zeros(shape, each.dtype) for shape, each in zip(shapes, given)]
    means = _bind("allreduce", given, {**plain, "reduce_op": Average})
    if operation == "broadcast":
        return [mean if group.is_root else tf.zeros_like(mean) for mean in means]
    begins = [group.position * each for each in rows]
    return [tf.reshape(mean[b : b + r], shape) for mean, b, r, shape in zip(means, begins, rows, shapes)]


def _adjoint_of_extrema(given: List[Any], found: List[Any], upstream: List[Any], attributes: Attributes) -> List[Any]:
    plain = {key: attributes[key] for key in ("tensor_name", "process_set_id")}
    own = {**plain, "tensor_name": f"{plain['tensor_name']}.extremum", "reduce_op": attributes["reduce_op"]}
    return gradients_of_extrema(
        given,
        found,
        upstream,
        (factor_of(attributes["prescale_bits"]), factor_of(attributes["postscale_bits"])),
        lambda tensors: _bind("allreduce", tensors, own),
        lambda tensors: _bind("allreduce", tensors, {**plain, "reduce_op": Sum}),
    )


# ---- What the ops library calls in the place of its ops -------------------------------------------------------------


def _alltoall(tensor: tf.Tensor, splits: tf.Tensor, **attributes: Any) -> Any:
    if splits.shape != [0]:
        raise ValueError(
            "alltoall with splits cannot be compiled by XLA, which must know the shape of the result; leave the splits out, "
            "or use jit_compile=False for the function that calls it"
        )
    return _bind("alltoall", [tensor], attributes)[0], None


def _rooted(operation: str) -> Callable[..., Any]:
    return lambda tensor, **attributes: (_bind(operation, [tensor], attributes)[0], None)


def _scalar(operation: str, **attributes: Any) -> tf.Tensor:
    _require_handlers(operation)
    return _call(operation, [], [((), tf.int32)], attributes)[0]


def _barrier(**attributes: Any) -> Any:
    _require_handlers("barrier")
    _call("barrier", [], [], attributes)
    return tf.no_op()


COMPILED: Dict[str, Callable[..., Any]] = {
    "farandole_allreduce": lambda tensors, **attributes: _bind("allreduce", tensors, attributes),
    "farandole_broadcast": lambda tensors, **attributes: _bind("broadcast", tensors, attributes),
    "farandole_reducescatter": lambda tensors, **attributes: _bind("reducescatter", tensors, attributes),
    # XLA needs to know how many rows each rank gives: it is as many as this one.
    "farandole_allgather": lambda tensors, **attributes: (_bind("allgather", tensors, attributes), None),
    "farandole_alltoall": _alltoall,
    "farandole_gather": _rooted("gather"),
    "farandole_scatter": _rooted("scatter"),
    "farandole_join": lambda **attributes: _scalar("join", **attributes),
    "farandole_barrier": _barrier,
    "farandole_number": lambda **attributes: _scalar("number", **attributes),
}
"""By the name of the op's function, with its arguments. The second result of those that have rows is None."""
