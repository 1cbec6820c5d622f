"""The errors of operations outside of functions: TensorFlow's, which are those of Farandole's other modules as well."""

import re
from typing import Any, NoReturn

import tensorflow as tf

from .._library import failure, lib
from ..basics import is_initialized
from ..exceptions import InvalidRequest, NotReady

# Eager execution puts it around an op's own sentence, and a function its node.
_AROUND = re.compile(
    r"^\{\{function_node [^}]*\}\} ?(?:: )?|\s*\[\[\{\{node [^}]*\}\}\]\]| \[Op:\w+\](?: name: ?\S*)?$"
)
_ELEMENT_TYPE = re.compile(r"TensorFlow's element type (\d+)")


class WrongCall(InvalidRequest, tf.errors.InvalidArgumentError):
    """This call is wrong."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        tf.errors.InvalidArgumentError.__init__(self, node_def, op, message)


class NotAgreed(InvalidRequest, tf.errors.FailedPreconditionError):
    """Ranks disagree about the call."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        tf.errors.FailedPreconditionError.__init__(self, node_def, op, message)


class NotInJob(NotReady, tf.errors.FailedPreconditionError):
    """This process is in no job: before init() and after shutdown()."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        tf.errors.FailedPreconditionError.__init__(self, node_def, op, message)


def _named(match: "re.Match[str]") -> str:
    try:
        return str(tf.dtypes.as_dtype(int(match[1])).name)
    except TypeError:
        return match[0]


def raise_failure(code: int, is_refused: bool) -> NoReturn:
    """As an op of the library raises its error. `is_refused`: the call is wrong by itself, else the ranks together."""
    if code == lib.FARANDOLE_INVALID_ARGUMENT and not is_refused:
        code = lib.FARANDOLE_FAILED_PRECONDITION
    elif code in (lib.FARANDOLE_ABORTED, lib.FARANDOLE_UNAVAILABLE):
        code = tf.errors.UNKNOWN
    error = tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, str(failure(code)))
    if isinstance(error, (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError)):
        raise_as_elsewhere(error)
    raise error


def raise_as_elsewhere(error: tf.errors.OpError) -> NoReturn:
    """Raises an error of an op, of one of these kinds."""
    message = _ELEMENT_TYPE.sub(_named, _AROUND.sub("", error.message))
    if isinstance(error, tf.errors.InvalidArgumentError):
        raise WrongCall(error.node_def, error.op, message) from None
    kind = NotAgreed if is_initialized() else NotInJob
    raise kind(error.node_def, error.op, message) from None
