"""Checkpoints through the gate: one writer, a file that is there whole or not at all, and a catalogue that says what
exists.

Rank 0 writes into a temporary file; commit checksums, syncs and renames it, and enters it into the job's catalogue.
Needs PyTorch only where states are written or read for the caller.
"""

import operator
import os
from typing import Any, Callable, Optional, Tuple, Union

from ._library import OK, failure, ffi, lib
from ._ops import encode_name
from .basics import rank
from .exceptions import CheckpointError, EpochEnded, QuotaError
from .objects import broadcast_object

State = Any
Writer = Callable[[str], None]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"writing or reading a state needs PyTorch, which cannot be imported ({error}); install it with `pip install torch`, "
            "or pass a function that writes the file"
        ) from None
    return torch


def _text(value: Optional[str]) -> Any:
    return ffi.NULL if value is None else encode_name(value)


def _directory(directory: Any) -> bytes:
    try:
        return os.fsencode(directory)
    except TypeError:
        raise ValueError(f"a checkpoint's directory is a path, not {directory!r}") from None


def _path(text: Any) -> str:
    """Of bytes that are no text too, as Python's functions on files take it."""
    return os.fsdecode(ffi.string(text))


def _step(step: Any) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        raise ValueError(f"a checkpoint's step is a whole number, not {step!r}") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"a checkpoint's step is a number of 64 bits, not {number}")
    return number


def _reason(error: BaseException) -> str:
    """The first line of an exception's text: torch's go on for a page."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def save(
    state_or_writer: Union[State, Writer],
    directory: str,
    step: int,
    name: str = "checkpoint",
    extension: str = "pt",
    wait: bool = False,
    replace: bool = False,
) -> Optional[str]:
    """Writes the checkpoint `name` of `step` into `directory`, on rank 0. Returns its path there, None on the other
    ranks.

    `state_or_writer`: an object for torch.save(), or a function that takes a path and writes the file there. All ranks
    may call it. Ranks other than 0 return at once. With `wait`, all ranks wait until the checkpoint is committed, and
    return its path or raise. With `replace`, the new checkpoint takes the place of one of the same name and step from
    an earlier run in the catalogue; then the old file is removed.

    `directory` is made where it is missing. With a coordinator its path is UTF-8, else a ValueError says so.

    CheckpointError: the file cannot be written (no permission, disk full); path and reason are named. FileExistsError:
    there is one of this name and step, and `replace` is not set. EpochEnded: the epoch has ended, or a newer writer
    has taken over; nothing is left behind. ConnectionError: the coordinator cannot be reached; where it is not known
    whether the checkpoint was committed, its file stays, and the text names it.
    """
    place = (_directory(directory), _text(name), _step(step))
    path, error = None, None
    if rank() == 0:
        try:
            path = _save(state_or_writer, place, extension, replace)
        except Exception as failed:  # pylint: disable=broad-except; raised below
            error = failed
    if wait:
        path, message = broadcast_object((path, error and str(error)), 0, "farandole.checkpoint.save")
        if message and error is None:
            raise CheckpointError(message)
    if error is not None:
        raise error
    return path


def _save(state_or_writer: Union[State, Writer], place: Tuple[bytes, Any, int], extension: str, replace: bool) -> str:
    number, path = ffi.new("int64_t*"), ffi.new("const char**")
    try:
        _check(lib.farandole_checkpoint_begin(*place, _text(extension), replace, number, path))
        _write(state_or_writer, _path(path[0]), number[0])
    except CheckpointError:
        raise  # none is open any more
    except BaseException:
        # A signal's handler may have raised while it was begun, which takes as long as the coordinator's answer.
        if number[0] != 0:
            lib.farandole_checkpoint_abandon(number[0])
        raise
    _check(lib.farandole_checkpoint_commit(number[0], path))
    return _path(path[0])


def _write(state_or_writer: Union[State, Writer], temporary: str, number: int) -> None:
    try:
        if callable(state_or_writer) and not hasattr(state_or_writer, "state_dict"):
            state_or_writer(temporary)
        else:
            _torch().save(state_or_writer, temporary)
    except ImportError:
        raise
    except Exception as error:
        failed = failure(lib.farandole_checkpoint_fail(number, _reason(error).encode(errors="replace")))
        if isinstance(failed, EpochEnded):
            raise failed from error
        raise CheckpointError(str(failed)) from error


def _check(code: int) -> None:
    if code != OK:
        error = failure(code)
        raise CheckpointError(str(error)) if isinstance(error, (QuotaError, LookupError)) else error


def find(directory: str, name: str = "checkpoint", step: int = -1) -> Optional[str]:
    """Path of the checkpoint of that step (-1: the newest) in the job's catalogue; without a coordinator, in
    `directory`. None: there is none."""
    path, found = ffi.new("const char**"), ffi.new("int64_t*")
    code = lib.farandole_checkpoint_find(_directory(directory), _text(name), _step(step), path, found)
    if code == lib.FARANDOLE_NOT_FOUND:
        return None
    _check(code)
    return _path(path[0])


def latest(directory: str, name: str = "checkpoint") -> Optional[str]:
    """Path of the newest checkpoint of `name`; None if there is none."""
    return find(directory, name)


def load(path: str, map_location: Any = "cpu", weights_only: bool = True) -> Any:
    """Reads a state that save() has written, tensors onto `map_location`.

    `weights_only`: only tensors and plain values; False runs any code that the file holds. CheckpointError: it cannot
    be read; path and reason are named.
    """
    torch = _torch()
    try:
        return torch.load(path, map_location=map_location, weights_only=weights_only)
    except Exception as error:  # pylint: disable=broad-except; torch raises a dozen kinds for a damaged file
        reason = error.strerror if isinstance(error, OSError) and error.strerror else _reason(error)
        raise CheckpointError(f"checkpoint {path} cannot be read: {reason}") from error
