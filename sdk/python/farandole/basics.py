"""Life of the worker in this process: init, shutdown, and who it is."""

import atexit
import os
import sys
import traceback
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _communicators, _epochs, _options, _stacks
from . import process_sets as _process_sets
from ._library import check, failure, ffi, forked, interruptible, lib
from .exceptions import Dismissed, EpochEnded, NotReady


def init(
    comm: Union[Sequence[int], Any, None] = None,
    process_sets: Union[str, Sequence[_process_sets.ProcessSet], None] = None,
) -> None:
    """Joins the job, and returns when all its workers have. Does nothing if this process has joined already.

    The launcher's environment says which job (see worker/farandole.h); without one the process is a job of size 1.
    `comm`: the processes that become a job of their own, this one among them: numbers of the launch (under mpirun or
    srun, its ranks), whose order is that of the ranks, or an mpi4py communicator; None or []: all. `process_sets`: sets
    to register now, the same on all ranks except for those that are made of communicators; or "dynamic" (always
    possible here). An elastic job has them in each epoch in which all their ranks exist.

    ValueError: a setting is not valid, or workers disagree about the size. StallError: not all workers joined in time;
    the message names those that did. ConnectionError: the coordinator cannot be reached. PermissionError, QuotaError:
    it refuses. KeyboardInterrupt within a second of Ctrl-C. SystemExit with code 0: an elastic job has finished while
    this process waited for a place in it. RuntimeError: this process was started by a worker, as the processes of
    multiprocessing are.
    """
    members = _members_of(comm)
    if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(f'process_sets must be a list of ProcessSet or "dynamic", not {process_sets!r}')
    is_new = not is_initialized()
    if is_new:
        _refuse_a_second_worker()
        program = ffi.new("char[]", _options.program_path().encode())
        options = ffi.new("farandole_init_options*", {"struct_bytes": ffi.sizeof("farandole_init_options")})
        options.program = program
        if members:
            numbers = ffi.new("int32_t[]", members)
            options.members, options.member_count = numbers, len(members)
        try:
            interruptible(lib.farandole_init, options)
        except Dismissed as error:
            raise dismissal(error) from error
        _options.take_place()
        _stacks.register()
    try:
        if process_sets is not None and not isinstance(process_sets, str):
            _register(_with_ranks(process_sets), goes_on=is_new and _epochs.is_elastic())
    finally:
        if is_new:
            _epochs.begin()


def _register(process_sets: Sequence[_process_sets.ProcessSet], goes_on: bool) -> None:
    """Registers the sets of init(). `goes_on`: in the next epoch if a loss ends this one, as init() itself does."""
    while True:
        try:
            return _process_sets.register_lasting(process_sets)
        except EpochEnded:
            if not goes_on:
                raise
        try:
            _epochs.leave_and_join()
        except Dismissed as error:
            raise dismissal(error) from error


def _refuse_a_second_worker() -> None:
    worker = _options.place_is_taken_by()
    if worker not in (None, os.getpid()) and not forked():
        raise NotReady(
            f"this process was started by a worker, process {worker}, whose place in the job it cannot take: call init() in "
            "the worker only; for a job of its own, start it by `farandole run`"
        )


def _members_of(comm: Any) -> Optional[List[int]]:
    if comm is None:
        return None
    if _communicators.is_communicator(comm):
        return _communicators.world_ranks(comm)
    try:
        return [rank.__index__() for rank in comm]
    except (TypeError, AttributeError):
        raise ValueError(
            f"Invalid type of argument comm. Expected list of rank integers or mpi4py.MPI.Comm object, not {comm!r}"
        ) from None


def _with_ranks(process_sets: Sequence[_process_sets.ProcessSet]) -> List[_process_sets.ProcessSet]:
    """The sets, the same on all ranks: of those that are made of communicators each rank may have others."""
    given = list(process_sets) if hasattr(process_sets, "__iter__") else [process_sets]
    for each in given:
        if not isinstance(each, _process_sets.ProcessSet):
            raise ValueError(f'process_sets must be a list of ProcessSet or "dynamic"; {each!r} is none')
    if not _communicators.are_possible():
        return given
    own = [each for each in given if each.mpi_comm is not None]
    for process_set in own:
        process_set.ranks = sorted(_communicators.gather(process_set.mpi_comm, rank()))
    from .objects import allgather_object  # pylint: disable=import-outside-toplevel; it needs this module

    known = {tuple(each.ranks): each for each in own}
    found = sorted({ranks for theirs in allgather_object(list(known)) for ranks in theirs})
    made = [known.get(ranks) or _process_sets.ProcessSet(ranks) for ranks in found]
    return [each for each in given if each.mpi_comm is None] + made


def dismissal(error: Dismissed) -> SystemExit:
    """The end, in order, of a process that its job has no place for. Tells why on stderr."""
    print(f"farandole: {error}", file=sys.stderr, flush=True)
    return SystemExit(0)


_before_shutdown: List[Callable[[], None]] = []
_left_as: List[int] = []


def last_rank() -> Optional[int]:
    """This worker's rank in the elastic job that it is in, or has left by shutdown(); None: it was in none."""
    _note_rank()
    return _left_as[0] if _left_as else None


def _note_rank() -> None:
    if is_initialized() and _epochs.is_elastic() and lib.farandole_rank() >= 0:
        _left_as[:] = [lib.farandole_rank()]


def before_shutdown(settle: Callable[[], None]) -> None:
    """Registers a function that shutdown() calls first: it waits for operations that a framework has queued. At exit it
    runs before the framework, which is imported, ends by itself."""
    _before_shutdown.append(settle)
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)


def shutdown() -> None:
    """Leaves the job in order; pending operations end with EpochEnded. Rank 0 stays until all have left or died.

    Runs by itself at exit. After an uncaught exception it ends the epoch on all ranks, with the exception's text as the
    reason.
    init() may follow. Does nothing if the process is no worker. If a signal handler calls it while init(),
    add_process_set() or the like waits, that call gives up with RuntimeError or EpochEnded.
    """
    if is_initialized():
        for settle in _before_shutdown:
            settle()
        _note_rank()
    try:
        interruptible(lib.farandole_shutdown)
    finally:
        _options.leave_place()
        _process_sets.forget_all()
        _process_sets.forget_lasting()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Records from now on what tensors wait for, in a file for chrome://tracing or Perfetto (docs/timeline.md).

    `file_path` is replaced; ranks other than 0 write beside it, with ".rank1" and so on before its extension.
    `mark_cycles`: also where each batch of tensors begins. A file that is being written ends, unless it is the same one,
    which goes on. ValueError: not initialized, or the file cannot be written.
    """
    try:
        path = os.fsencode(file_path)
    except TypeError:
        raise ValueError(f"file_path is where to write the timeline, not {file_path!r}") from None
    code = lib.farandole_start_timeline(path, int(mark_cycles))
    if code:
        raise failure(code)


def stop_timeline() -> None:
    """Ends the file, if one is recorded; shutdown() does it, too."""
    code = lib.farandole_stop_timeline()
    if code:
        raise failure(code)


# FARANDOLE_NEXT_STEP of worker/farandole.h.
_NEXT_STEP = -(2**63)


def log(values: Mapping[str, Any], step: Optional[int] = None, by_rank: bool = False) -> None:
    """Logs numbers of the program for the job's curves: `hvd.log({"loss": loss}, step=n)` (docs/logging.md).

    `values`: by name (1 to 128 bytes), numbers or whatever float() takes: scalars of NumPy, torch, TensorFlow, JAX and
    MXNet. `step`: without one it is one more than the name's last, from 0. Values of a step are averaged, over the ranks
    and calls that log it; `by_rank`: each rank has a curve of its own. Never waits for the coordinator; but float() of a
    tensor in a GPU waits for what computes it. RuntimeError: not initialized. ValueError: a name or value cannot be
    one. QuotaError: this process logs more than 256 names.
    """
    if step is None:
        at = _NEXT_STEP
    else:
        try:
            at = step.__index__()
        except AttributeError:
            raise ValueError(f"step is a whole number, not {step!r}") from None
        if not _NEXT_STEP < at < 2**63:
            raise ValueError(f"step {at} is not a number of 64 bits")
    if not isinstance(values, Mapping):
        raise ValueError(f"values are numbers by name, as in {{'loss': 0.5}}, not {values!r}")
    for name, value in values.items():
        try:
            number, text = float(value), name.encode()
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ValueError(f"{name!r} is logged as {value!r}, which is no single number: {error}") from None
        if b"\0" in text:
            raise ValueError(f"the name {name!r} has a zero byte")
        code = lib.farandole_log(text, number, at, int(by_rank))
        if code:
            raise failure(code)


def checkpoint_requested() -> bool:
    """Whether somebody wants a checkpoint now (`farandole job checkpoint JOB`): True once for each request, at the same
    call on all ranks. Write one then (`checkpoint.save`); that ends the request.

    All ranks call it equally often, at the same points of the program: once a step, behind `state.commit()` where the
    job is elastic. Most calls only count (about a microsecond). Two a second, and every 32nd at least, are a small
    allreduce, in which ranks wait for each other. A call that an exception of a signal handler has ended is to be made
    again: the other ranks have its answer. False while another rank has joined (`join`). NotReady: this rank has joined,
    or is not initialized. EpochEnded: a worker has died or left; the next epoch is told of the request again.
    """
    requested = ffi.new("int32_t*")
    interruptible(lib.farandole_checkpoint_requested, requested)
    return requested[0] == 1


def is_initialized() -> bool:
    """Whether this process is a worker: between init() and shutdown(), also when its epoch has ended by an error."""
    return not forked() and lib.farandole_is_initialized() == 1


def _failure() -> Optional[bytes]:
    """The sentence of the program's exception that ends this process; None: it ends in order."""
    # The interpreter keeps the exception that it has printed, with every sys.excepthook that the program may have set.
    exception, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
    if exception is None or trace is None:
        return None
    # An exception at the interpreter's prompt ends nothing. Nor does one that a console, debugger or test runner within
    # the program has printed: such a one has not left the program's main code.
    outermost = trace.tb_frame.f_code
    if hasattr(sys, "ps1") or outermost.co_name not in _MAIN_CODE or outermost.co_filename == "<console>":
        return None
    words = "".join(traceback.format_exception_only(type(exception), exception))
    return " ".join(words.split()).encode(errors="replace")


# Of a script, and of `python -m`.
_MAIN_CODE = ("<module>", "_run_module_as_main")


def _at_exit() -> None:
    # Inform peers now, after the program's own clean-up: they end later than the rank that is the cause.
    if forked():
        return
    try:
        failure_words = _failure()
        if failure_words is not None:
            lib.farandole_fail(failure_words)
        shutdown()
    except KeyboardInterrupt:
        pass  # the second Ctrl-C of an impatient user: the process ends anyway, and its peers see it


atexit.register(_at_exit)


_PLACE = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
# Those of the worker that this process was forked from.
_inherited: Dict[str, int] = {}


def _keep_place() -> None:
    if forked():
        return  # a child's own children have them from it
    _inherited.clear()
    if is_initialized():
        _inherited.update((name, getattr(lib, f"farandole_{name}")()) for name in _PLACE)


os.register_at_fork(before=_keep_place)


def _of_place(name: str) -> int:
    if forked() and name in _inherited:
        return _inherited[name]
    return check(getattr(lib, f"farandole_{name}")())


def rank() -> int:
    """This worker's number in the job, 0 to size() - 1. RuntimeError before init(), as from the functions below.

    In a process that a worker has forked, as a data loader's are, they are the worker's.
    """
    return _of_place("rank")


def size() -> int:
    """Number of workers in the job."""
    return _of_place("size")


def local_rank() -> int:
    """This worker's number among the job's workers of this host."""
    return _of_place("local_rank")


def local_size() -> int:
    """Number of the job's workers of this host."""
    return _of_place("local_size")


def cross_rank() -> int:
    """This worker's number among the workers with its local rank, one a host."""
    return _of_place("cross_rank")


def cross_size() -> int:
    """Number of hosts that have a worker with this local rank."""
    return _of_place("cross_size")


def is_homogeneous() -> bool:
    """Whether every host has equally many workers."""
    return check(lib.farandole_is_homogeneous()) == 1


class Counters(NamedTuple):
    """This worker's work since init(); counts unless they say otherwise."""

    submissions: int
    """Tensors accepted."""
    completions: int
    """Tensors completed, well or not."""
    batches: int
    """Collectives run; submissions / batches is the fusion."""
    bytes: int
    """Bytes of tensors given to collectives."""
    coordinator_messages: int
    """Messages about tensors to and from the coordinator; stands still in the steady state."""
    engine_ns: int
    """Nanoseconds in which a thread worked or waited inside collectives."""
    wait_ns: int
    """Nanoseconds that callers spent waiting; an estimate where waits are short."""
    arena_bytes: int
    """Of `bytes`, those that were reduced in place in arenas."""


def counters() -> Counters:
    """This worker's counters. RuntimeError before init()."""
    found = ffi.new("farandole_counters*")
    found.struct_bytes = ffi.sizeof("farandole_counters")
    code = lib.farandole_read_counters(found)
    if code != 0:
        raise failure(code)
    return Counters(**{field: getattr(found, field) for field in Counters._fields})


def gloo_built() -> bool:
    """Whether the transport over Gloo is there."""
    return _options.gloo_library_exists()


def gloo_enabled() -> bool:
    """As gloo_built: what Horovod says where MPI does not start and connect the workers."""
    return gloo_built()


def _no() -> bool:
    """False: this version of farandole has no such backend."""
    return False


mpi_threads_supported = _no
mpi_enabled = _no
mpi_built = _no
ddl_built = _no
ccl_built = _no
rocm_built = _no


def nccl_built() -> int:
    """The version of NCCL that this process would use for CUDA tensors (23007 is 2.30.7), also before init(); 0: none
    (docs/gpu.md).

    It is found at run time, and PyTorch's when torch is imported. No GPU is touched.
    """
    return int(lib.farandole_nccl_version())


def cuda_built() -> bool:
    """Whether CUDA tensors can travel from GPU to GPU: there is a driver, and nccl_built() is not 0."""
    return nccl_built() != 0
