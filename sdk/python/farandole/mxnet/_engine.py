"""Collectives as operations of MXNet's engine, which runs each as soon as its arrays are there (libfarandole_mxnet.so)."""

import contextlib
import ctypes
import functools
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import mxnet as mx

from .. import _epochs, _options, basics
from .._adapter_library import connected
from .._library import EXCEPTIONS
from ..process_sets import ProcessSet, global_process_set, group_of
from ..reduce_ops import Sum

# As adapter::Op in sdk/adapter/call.h numbers them.
_OPERATIONS = ("allreduce", "allgather", "broadcast", "reducescatter", "alltoall", "gather", "scatter")
# So many calls without a name may be on their way before one waits for the first: names that come again cost nothing.
_UNNAMED = 64


class _Terms(ctypes.Structure):
    """farandole_mxnet_terms of sdk/mxnet/push.h."""

    _fields_ = [
        ("op", ctypes.c_int32),
        ("reduce_op", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("group", ctypes.c_int32),
        ("priority", ctypes.c_int32),
        ("waits", ctypes.c_int32),
        ("prescale", ctypes.c_double),
        ("postscale", ctypes.c_double),
        ("name", ctypes.c_char_p),
    ]


def _load() -> ctypes.CDLL:
    library = connected("libfarandole_mxnet.so", "farandole's operations for MXNet")
    library.farandole_mxnet_find.restype = ctypes.c_char_p
    library.farandole_mxnet_push.restype = ctypes.c_char_p
    reason = library.farandole_mxnet_find(mx.libinfo.find_lib_path()[0].encode())
    if reason is not None:
        raise ImportError(f"farandole.mxnet needs MXNet 1.9.1, and this is {mx.__version__}: {reason.decode()}")
    return library


_library = _load()
# That one runs each operation where it is pushed, to its end.
_is_naive = int(_options.variable("MXNET_ENGINE_TYPE") == "NaiveEngine")


def _register_exceptions() -> None:
    """Has MXNet's waits raise the exception of a code that comes with a collective's error, and MXNetErrors as ever."""

    def make(kind: type, prefix: str, message: str) -> Exception:
        error: Exception = kind(message.removeprefix(prefix) if hasattr(message, "removeprefix") else message)
        return error

    for code, exception in EXCEPTIONS.items():
        kind = exception
        if issubclass(exception, RuntimeError):
            kind = type(exception.__name__, (exception, mx.base.MXNetError), {"__module__": exception.__module__})
        name = f"farandole.{code}"
        mx.base.register_error(name, functools.partial(make, kind, f"{name}: "))


_register_exceptions()


def settle() -> None:
    """Waits for the engine. An array that an operation without success was to write stays unusable until a wait has raised
    the error: none does any more."""
    with contextlib.suppress(RuntimeError, ValueError):
        mx.nd.waitall()


# A rank that left before would end the epoch for those that are not so far.
basics.before_shutdown(settle)


class _Names:
    """The names of calls without one: those of a kind and process set are paired in the order of the program, whatever the
    engines make of it."""

    def __init__(self) -> None:
        self._counts: Dict[Tuple[str, int], int] = {}

    def next(self, kind: str, group: int) -> str:
        count = self._counts.get((kind, group), 0)
        self._counts[kind, group] = count + 1
        return f"{kind}.noname.{count % _UNNAMED}"

    def leave_epoch(self) -> None:
        """The next epoch's ranks begin together."""

    def enter_epoch(self) -> None:
        self._counts.clear()

    def all_have_joined(self) -> None:
        self._counts.clear()


_names = _Names()
_epochs.follow(_names)


def name_of(kind: str, name: Optional[str], process_set: ProcessSet) -> str:
    """The name of a call: the caller's, or one that the other ranks give their call, too. ValueError: the process set is not
    registered, this rank is not in it, or it is no name."""
    group = group_of(process_set)
    process_set.rank()
    if not name:
        return _names.next(kind, group)
    if not isinstance(name, str):
        raise ValueError(f"a name is a string, not {name!r}")
    if "\0" in name:
        raise ValueError(f"the name {name!r} holds a NUL character")
    return name


class Terms(NamedTuple):
    """A call's terms besides its arrays and its name."""

    priority: int = 0
    op: int = Sum
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    process_set: ProcessSet = global_process_set


def push(
    operation: str,
    name: str,
    inputs: Sequence[mx.nd.NDArray],
    outputs: Sequence[mx.nd.NDArray],
    terms: Terms,
    splits: Optional[Sequence[int]] = None,
) -> None:
    """Has the engine run a collective of arrays in the host's memory. An output has its final shape; it may be its input."""
    count = len(inputs)
    given: Any = (ctypes.c_void_p * count)(*[array.handle for array in inputs])
    made: Any = (ctypes.c_void_p * count)(*[array.handle for array in outputs])
    numbers = None if splits is None else (ctypes.c_int64 * len(splits))(*splits)
    own = _Terms(
        _OPERATIONS.index(operation),
        terms.op,
        terms.root,
        group_of(terms.process_set),
        terms.priority,
        _is_naive,
        terms.prescale,
        terms.postscale,
        name.encode(),
    )
    reason = _library.farandole_mxnet_push(
        ctypes.byref(own), given, made, count, numbers, 0 if splits is None else len(splits)
    )
    if reason is not None:
        raise ValueError(reason.decode(errors="replace"))
