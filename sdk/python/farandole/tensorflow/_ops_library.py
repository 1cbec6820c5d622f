"""The ops of libfarandole_tensorflow.so, as the present function needs them: TensorFlow's own, or calls of XLA."""

import ctypes
import functools
import struct
from typing import Any, Optional

import tensorflow as tf

from .. import _options
from ._generated_ops import generated
from ._xla import COMPILED, check_element_types, is_compiled
from .errors import raise_as_elsewhere
from .graph_names import end_with, order_calls

# Ops whose place among the others is part of what they mean.
_ORDERED = ("farandole_join", "farandole_barrier")

# Ops that are not for XLA: in_place.py makes them in graphs.
_PLAIN = ("farandole_broadcast_in_place", "farandole_fail")


def _let_them_overlap() -> None:
    """Has tf.function keep the ops although nothing uses their outputs, but run them in the order in which they become
    ready: ordered as written, two ranks whose programs differ in that order would wait for each other forever."""
    from tensorflow.python.framework import auto_control_deps

    auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = frozenset(
        [
            *auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS,
            *(name.title().replace("_", "") for name in (*COMPILED, *_PLAIN) if name not in _ORDERED),
        ]
    )


@functools.lru_cache(maxsize=None)
def why_not_compiled() -> Optional[str]:
    """Why this TensorFlow's XLA cannot call the library; None: it can."""
    # XLA's interface in 2.18 says of itself what that in 2.19 says, and ends the process; older ones do not tell their version.
    if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 19):
        return f"this is TensorFlow {tf.__version__}, and the XLA of 2.19 or later can call it"
    library = ctypes.CDLL(str(_options.library_beside("libfarandole_tensorflow.so")))
    library.farandole_tensorflow_register_with_xla.restype = ctypes.c_char_p
    reason = library.farandole_tensorflow_register_with_xla()
    return None if reason is None else reason.decode()


class _Ops:
    """Makes ops, of the kind that the present function needs: XLA compiles calls of its own."""

    def __init__(self, generated: Any) -> None:
        for name, compiled in COMPILED.items():
            setattr(self, name, self._chosen(getattr(generated, name), compiled))
        for name in _PLAIN:
            setattr(self, name, self._plain(getattr(generated, name)))

    @staticmethod
    def _plain(plain: Any) -> Any:
        def make(*tensors: Any, **attributes: Any) -> Any:
            made = plain(*tensors, **attributes)
            end_with(made)
            return made

        return make

    @staticmethod
    def _chosen(plain: Any, compiled: Any) -> Any:
        def make(*tensors: Any, **attributes: Any) -> Any:
            if tf.executing_eagerly():
                try:
                    return plain(*tensors, **attributes)
                except (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError) as error:
                    raise_as_elsewhere(error)
            check_element_types(tf.nest.flatten(tensors))
            if is_compiled():
                return compiled(*tensors, **attributes)
            made = plain(*tensors, **attributes)
            end_with(made)
            return made

        return make


_let_them_overlap()
order_calls()
ops: Any = _Ops(generated)
"""The functions that make ops: ops.farandole_allreduce and so on."""


_ONE = struct.unpack("=q", struct.pack("=d", 1.0))[0]


def bits(factor: float) -> int:
    """A double as the integer attribute that carries it: TensorFlow's float attributes have 32 bits."""
    return _ONE if factor == 1.0 else struct.unpack("=q", struct.pack("=d", factor))[0]


# As in sdk/tensorflow/ops.cc.
_DEFAULTS = {"prescale_bits": _ONE, "postscale_bits": _ONE, "process_set_id": 0, "tensor_name": b""}


def attribute(op: Any, name: str) -> Any:
    """An attribute of an op whose gradient is made. Of an eager op the tape has only those that its call gave."""
    try:
        return op.get_attr(name)
    except KeyError:
        return _DEFAULTS[name]
