"""An allreduce of one eager tensor.

Of a small one, TensorFlow's time for an op is several times that of the collective. Where no tape records, its elements
go to the library as an array of NumPy. Others go by the call that TensorFlow's generated functions make of the same op.
These give all attributes, each of which costs TensorFlow 0.4 us in every call. Attributes that are left out have their
defaults in sdk/tensorflow/ops.cc.
"""

from typing import Any, List, Optional

import numpy
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, core
from tensorflow.python.framework import ops as framework_ops

from .. import _ops
from ..numpy import DTYPES, reduce_now
from ..process_sets import ProcessSet, global_process_set, group_of
from ._ops_library import bits, ops
from .errors import raise_as_elsewhere, raise_failure
from .placement import has_gpus, tell_of_copies

_NO_FACTORS = (1.0, 1.0)

# The largest tensor that is cheaper to copy than to give to an op, in bytes.
_MOST_COPIED = 1024
_COPIED_TYPES = frozenset(tf.as_dtype(dtype).as_datatype_enum for dtype in DTYPES)


def _raise(error: Any) -> None:
    try:
        framework_ops.raise_from_not_ok_status(error, None)
    except (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError) as told:
        raise_as_elsewhere(told)


def allreduce_now(
    tensor: tf.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> tf.Tensor:
    """The op where TensorFlow executes eagerly. Errors: those of `ops`."""
    if tensor._datatype_enum() in _COPIED_TYPES and not has_gpus() and pywrap_tfe.TFE_Py_TapeSetIsEmpty():
        elements = tensor._numpy_internal()
        if elements.nbytes <= _MOST_COPIED:
            array = numpy.array(elements)
            code = reduce_now(array, array, name, op, prescale, postscale, process_set)
            # None: it has too many dimensions, which the op says.
            if code is not None:
                return _tensor_of(array, code)
    tell_of_copies(tensor)
    return _execute(tensor, name, op, prescale, postscale, process_set)


def _tensor_of(array: numpy.ndarray, code: int) -> tf.Tensor:
    if code != 0:
        raise_failure(abs(code), is_refused=code < 0)
    # No device is the host, and spares TensorFlow looking it up, which takes longer than all else.
    return framework_ops.EagerTensor(array, context.context().device_name or None)


def _execute(
    tensor: tf.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> tf.Tensor:
    attributes: List[Any] = ["reduce_op", op]
    if (prescale, postscale) != _NO_FACTORS:
        _ops.check_factors(prescale, postscale)
        attributes += ("prescale_bits", bits(prescale), "postscale_bits", bits(postscale))
    if name is not None:
        _ops.encode_name(name)
        attributes += ("tensor_name", name)
    if process_set is not global_process_set:
        attributes += ("process_set_id", group_of(process_set))
    try:
        return pywrap_tfe.TFE_Py_FastPathExecute(context.context(), "FarandoleAllreduce", None, [tensor], *attributes)[
            0
        ]
    except core._FallbackException:
        # The first call of a program, say.
        given = dict(zip(attributes[::2], attributes[1::2]))
        return ops.farandole_allreduce([tensor], **given)[0]
    except core._NotOkStatusException as error:
        return _raise(error)
