"""Running a function on the workers of a job that is made for it, from a program that is no worker itself.

import farandole

def train(rate):
    import farandole.torch as hvd
    hvd.init()
    ...
    return loss

losses = farandole.run(train, args=(0.01,), np=4)
"""

import os
import socket
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _options
from ._run_exchange import Exchange, Failure, Outcome, Result

__all__ = ["run", "run_commandline"]


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = None,
    num_proc: int = 1,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Tuple[int, int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    host_discovery_script: Optional[str] = None,
    start_timeout: Optional[float] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[bool] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Optional[str] = None,
    network_interfaces: Optional[Sequence[str]] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
) -> List[Any]:
    """Returns what func(*args, **kwargs) returns on each worker of a new job, by rank; None if it calls sys.exit(0).

    Function, arguments and results are pickled, by cloudpickle where that is installed; so they may be lambdas and of
    __main__. Workers look for modules where this process does. `np`, `min_np` and `max_np` are short for `num_proc`,
    `min_num_proc` and `max_num_proc`; `executable` is the workers' Python, by default this one; the other arguments are the
    options of `farandole run` of the same name. `disable_cache`, `use_mpi` and `mpi_args` have no effect. Of an elastic job (one of
    the bounds, or a script) the results of the first `min_num_proc` ranks are returned.

    Raises func's exception on any rank again, with that rank's traceback as its cause; the launcher ends the others.
    RuntimeError: the job has failed otherwise, as stderr says, or a rank has no result. ValueError: arguments are wrong.
    """
    del disable_cache
    _refuse_wrong(func, args, kwargs)
    _refuse_both(hosts is not None and hostfile is not None, bool(use_gloo and use_mpi))
    least = min_np if min_np is not None else min_num_proc
    interfaces = network_interface.split(",") if network_interface else network_interfaces
    options = _written(
        {
            "-np": np if np is not None else num_proc,
            "--min-np": least,
            "--max-np": max_np if max_np is not None else max_num_proc,
            "--slots-per-host": slots,
            "--reset-limit": reset_limit,
            "--blacklist-cooldown-range": cooldown_range,
            "--hosts": hosts,
            "--hostfile": hostfile,
            "--host-discovery-script": host_discovery_script,
            "--start-timeout": start_timeout,
            "--ssh-port": ssh_port,
            "--ssh-identity-file": ssh_identity_file,
            "--output-filename": output_filename,
            "--verbose": verbose,
            "--gloo": use_gloo,
            "--mpi": use_mpi,
            "--mpi-args": mpi_args,
            "--network-interfaces": ",".join(interfaces) if interfaces else None,
        }
    )
    command = [*options, executable or sys.executable, "-m", "farandole._run_worker"]
    has_other_hosts = bool(hostfile or host_discovery_script) or not _are_this_host(hosts or "localhost")
    return _results(_run((func, tuple(args), kwargs or {}), command, has_other_hosts, interfaces or ()), options, least)


def _results(outcomes: Sequence[Outcome], options: Sequence[str], least: Optional[int]) -> List[Any]:
    """By rank, of the job that was launched with these options. RuntimeError: a rank has none."""
    is_elastic = {"--min-np", "--max-np", "--host-discovery-script"} & {word.split("=")[0] for word in options}
    size = int(options[1]) if options[0] == "-np" else 0
    if is_elastic:
        # A process that the job has no place for ends as one that calls sys.exit(0). Of two that have ended as the same
        # rank, the later one was in a later epoch.
        size = least or 0
        others = {each.rank: each for each in outcomes if not isinstance(each, Result) and each.rank < size}
        outcomes = list({**others, **{each.rank: each for each in outcomes if isinstance(each, Result)}}.values())
    missing = set(range(size)) - {outcome.rank for outcome in outcomes}
    if missing:
        raise RuntimeError(
            f"rank {min(missing)} of run() has ended with code 0 and without a result, as os._exit(0) does it"
        )
    results = [getattr(outcome, "value", None) for outcome in sorted(outcomes, key=lambda outcome: outcome.rank)]
    return results if least is None else results[:least]


def _refuse_wrong(func: Any, args: Any, kwargs: Any) -> None:
    if not callable(func):
        raise ValueError(f"run() calls a function on each worker, not {func!r}")
    if isinstance(args, str) or not hasattr(args, "__iter__"):
        raise ValueError(f"args are a list or tuple of the function's arguments, not {args!r}")
    if kwargs is not None and not hasattr(kwargs, "keys"):
        raise ValueError(f"kwargs are a dictionary of the function's named arguments, not {kwargs!r}")


def _refuse_both(hosts: bool, controllers: bool) -> None:
    if hosts:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if controllers:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")


def _written(options: Dict[str, Any]) -> List[str]:
    """Options as they are typed; those that are None or False are left out."""
    words: List[str] = []
    for name, value in options.items():
        if value is True:
            words.append(name)
        elif isinstance(value, (list, tuple)):
            words += [name, *map(str, value)]
        elif value is not None and value is not False:
            # One word: a value may begin with a dash.
            words += [name, str(value)] if name == "-np" else [f"{name}={value}"]
    return words


def _are_this_host(hosts: str) -> bool:
    """Whether all of HOST:SLOTS,HOST:SLOTS are this host, by the names that the launcher starts workers for without ssh."""
    own_name = socket.gethostname()
    return {host.split(":")[0].strip() for host in hosts.split(",")} <= {"localhost", own_name, own_name.split(".")[0]}


def _run(
    call: Tuple[Any, ...], command: Sequence[str], has_other_hosts: bool, interfaces: Sequence[str]
) -> Sequence[Outcome]:
    with Exchange(call, has_other_hosts, interfaces) as exchange:
        environment = _options.environment_with(
            FARANDOLE_RUN_ADDRESS=exchange.address, FARANDOLE_RUN_KEY=exchange.key.hex()
        )
        launcher = subprocess.Popen(
            [_options.launcher_path(), "run", *command], stdin=subprocess.DEVNULL, env=environment
        )
        try:
            code = launcher.wait()
        except BaseException:
            launcher.terminate()  # it ends its workers
            launcher.wait()
            raise
        outcomes = exchange.outcomes()
    if code == 0:
        return outcomes
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    # The first to fail is the cause; that the epoch has ended is what the others see of it.
    for failure in sorted(failures, key=lambda failure: failure.is_consequence):
        raise failure.exception()
    raise RuntimeError(f"the job of run() has failed with code {code}; the launcher has said why on stderr")


def run_commandline() -> None:
    """Becomes `farandole run --horovod` with this process's arguments: the command horovodrun."""
    os.execv(_options.launcher_path(), ["horovodrun", *sys.argv[1:]])
