"""Variables that launchers set and pass on, by Horovod's name."""

import re
from typing import Tuple

from farandole._options import variable

IGNORE_REGEXES = {"BASH_FUNC_.*", "OLDPWD", ".*CUDA_VISIBLE_DEVICES", "_HOROVOD_SECRET_KEY"}


def is_exportable(v: str) -> bool:
    """Whether to pass a variable of this name on to workers."""
    return not any(re.match(pattern, v) for pattern in IGNORE_REGEXES)


def get_env_rank_and_size() -> Tuple[int, int]:
    """The numbers in the launcher's variables; 0 and 1 without a launcher. RuntimeError: one of the two is missing."""
    for prefix in ("HOROVOD_", "OMPI_COMM_WORLD_", "PMI_"):
        rank, size = variable(f"{prefix}RANK"), variable(f"{prefix}SIZE")
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            raise RuntimeError(f"only one of {prefix}RANK and {prefix}SIZE is in the environment")
    return 0, 1
