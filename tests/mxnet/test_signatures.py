"""MXNet's functions are those of the one description, and have Horovod's parameters in Horovod's order."""

import sys

import farandole.mxnet
import signatures
from harness import ROOT

sys.path.insert(0, str(ROOT / "sdk" / "python" / "farandole" / "_dropin"))

import horovod.mxnet  # noqa: E402

# Of horovod 0.28.1.
ARGUMENTS = {
    "allreduce": "tensor average name priority prescale_factor postscale_factor process_set op",
    "allreduce_": "tensor average name priority prescale_factor postscale_factor process_set op",
    "grouped_allreduce": "tensors average name priority prescale_factor postscale_factor process_set op",
    "grouped_allreduce_": "tensors average name priority prescale_factor postscale_factor process_set op",
    "allgather": "tensor name priority process_set",
    "grouped_allgather": "tensors name priority process_set",
    "broadcast": "tensor root_rank name priority process_set",
    "broadcast_": "tensor root_rank name priority process_set",
    "alltoall": "tensor splits name priority process_set",
    "reducescatter": "tensor op name priority process_set prescale_factor postscale_factor",
    "grouped_reducescatter": "tensors op name priority process_set prescale_factor postscale_factor",
    "init": "comm process_sets",
    "broadcast_parameters": "params root_rank prefix",
    "broadcast_object": "obj root_rank name",
    "allgather_object": "obj name",
    "DistributedOptimizer": "optimizer gradient_predivide_factor num_groups process_set",
    "DistributedTrainer": "params optimizer optimizer_params compression gradient_predivide_factor prefix num_groups "
    "process_set",
}


def test_functions_are_as_described() -> None:
    signatures.require_described(farandole.mxnet)


def test_arguments_have_horovods_names_and_order() -> None:
    signatures.require_horovods(horovod.mxnet, ARGUMENTS)
