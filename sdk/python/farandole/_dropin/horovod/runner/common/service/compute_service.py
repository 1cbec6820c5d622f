"""The compute service by Horovod's name."""

from farandole._compute_service import ComputeClient, ComputeService  # noqa: F401
