"""A process's rank, size and features, by Horovod's name."""

import farandole
from farandole import process_sets


class HorovodBasics:
    """Horovod's functions as methods, for programs that ask for them so."""

    Average, Sum, Adasum = farandole.Average, farandole.Sum, farandole.Adasum
    Min, Max, Product = farandole.Min, farandole.Max, farandole.Product

    init = staticmethod(farandole.init)
    shutdown = staticmethod(farandole.shutdown)
    start_timeline = staticmethod(farandole.start_timeline)
    stop_timeline = staticmethod(farandole.stop_timeline)
    is_initialized = staticmethod(farandole.is_initialized)
    rank = staticmethod(farandole.rank)
    size = staticmethod(farandole.size)
    local_rank = staticmethod(farandole.local_rank)
    local_size = staticmethod(farandole.local_size)
    cross_rank = staticmethod(farandole.cross_rank)
    cross_size = staticmethod(farandole.cross_size)
    is_homogeneous = staticmethod(farandole.is_homogeneous)
    mpi_threads_supported = staticmethod(farandole.mpi_threads_supported)
    mpi_enabled = staticmethod(farandole.mpi_enabled)
    mpi_built = staticmethod(farandole.mpi_built)
    gloo_enabled = staticmethod(farandole.gloo_enabled)
    gloo_built = staticmethod(farandole.gloo_built)
    nccl_built = staticmethod(farandole.nccl_built)
    ddl_built = staticmethod(farandole.ddl_built)
    ccl_built = staticmethod(farandole.ccl_built)
    cuda_built = staticmethod(farandole.cuda_built)
    rocm_built = staticmethod(farandole.rocm_built)

    _get_process_set_ids_and_ranks = staticmethod(process_sets.ranks_by_id)

    def __init__(self, *_library: str) -> None:
        """`_library` is where Horovod's own library was; Farandole finds its own."""
