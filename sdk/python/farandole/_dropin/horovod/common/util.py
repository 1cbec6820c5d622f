"""Questions of Horovod's programs about the installation, and small tools of theirs."""

import functools
import importlib.util
import os
import sysconfig
from typing import Any, Callable, List, Optional, Sequence

import farandole
from farandole._options import temporary_environment as env  # noqa: F401
from farandole.reduce_ops import choose

EXTENSIONS = ["tensorflow", "torch", "mxnet"]

# Remembers a function's results for its arguments.
_cache = functools.lru_cache(maxsize=None)


def get_ext_suffix() -> str:
    """How the names of extension modules end."""
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where an extension module would be: parts of its path, beside a file."""
    return os.path.join(os.path.dirname(pkg_path), *args[:-1], args[-1] + get_ext_suffix())


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Optional[int], Optional[bool]], int]:
    """A function of `op` and the older `average` that returns the reduction which they mean. `reduce_ops` has Horovod's."""
    del reduce_ops
    return choose


def check_installed_version(name: str, version: str, exception: Optional[Exception] = None) -> None:
    """Nothing: Farandole is built for no version of a framework."""
    del name, version, exception


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether horovod.EXT_BASE_NAME can be imported: where the framework is installed."""
    found = ext_base_name in EXTENSIONS and importlib.util.find_spec(ext_base_name) is not None
    if verbose:
        print(f"Extension {ext_base_name} was {'' if found else 'NOT '}built.")
    return found


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """ImportError: there is no such extension. `ext_env_var` and the paths are of Horovod's own build."""
    del ext_env_var, pkg_path, args
    if not extension_available(ext_name.split(".")[-1]):
        raise ImportError(f"{ext_name} is not there: this Python has no {ext_name.split('.')[-1]}")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the framework sees a GPU: PyTorch. Tensors of the others travel through the host's memory."""
    if not extension_available(ext_base_name, verbose) or ext_base_name != "torch":
        return False
    import torch

    return torch.cuda.is_available()


def mpi_built(verbose: bool = False) -> bool:
    """As farandole.mpi_built."""
    del verbose
    return farandole.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """As farandole.gloo_built."""
    del verbose
    return farandole.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """As farandole.nccl_built."""
    del verbose
    return farandole.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    """As farandole.ddl_built."""
    del verbose
    return farandole.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """As farandole.ccl_built."""
    del verbose
    return farandole.ccl_built()


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of 2."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(l: Sequence[Any], n: int) -> List[Sequence[Any]]:  # noqa: E741
    """`n` parts of a list, of which the first ones have one element more where it cannot be divided."""
    most, rest = divmod(len(l), n)
    return [l[i * most + min(i, rest) : (i + 1) * most + min(i + 1, rest)] for i in range(n)]


def is_iterable(x: Any) -> bool:
    """Whether iter(x) is possible."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether version `ver` is `target` (MAJOR.MINOR.PATCH) or later."""
    from packaging import version

    if not (isinstance(ver, str) and isinstance(target, str)):
        raise ValueError(f"versions are strings: got {ver!r} and {target!r}")
    if len(target.split(".")) != 3:
        raise ValueError(f"the version to compare with is written MAJOR.MINOR.PATCH, not {target!r}")
    return version.parse(ver) >= version.parse(target)
