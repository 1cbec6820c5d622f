"""The names of the package itself, with their types."""

from typing import Optional, assert_type

import farandole
from farandole import EpochEnded, HostsUpdatedInterrupt, ProcessSet
from farandole.exceptions import CheckpointError

farandole.init()
assert_type(farandole.__version__, str)
assert_type(farandole.is_initialized(), bool)
assert_type(farandole.rank() + farandole.local_rank() + farandole.cross_rank(), int)
assert_type(farandole.size() // farandole.local_size(), int)
assert_type(farandole.is_homogeneous(), bool)
assert_type(farandole.gloo_built() or farandole.mpi_built(), bool)
assert_type(farandole.counters().submissions, int)
assert_type(farandole.Average, int)

evens = farandole.add_process_set(range(0, farandole.size(), 2))
assert_type(evens, ProcessSet)
assert_type(evens.included(), Optional[bool])
assert_type(evens.process_set_id, Optional[int])
assert_type(farandole.remove_process_set(evens), bool)


def reason(error: Exception) -> str:
    """Every error of the package is an exception class."""
    if isinstance(error, (EpochEnded, CheckpointError, farandole.StallError, farandole.QuotaError)):
        return str(error)
    return "" if isinstance(error, HostsUpdatedInterrupt) and error.skip_sync else "?"


farandole.shutdown()
