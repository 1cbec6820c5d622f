"""TensorFlow's functions are those of the one description, and have Horovod's parameters in Horovod's order."""

import sys

import farandole.tensorflow
import signatures
from harness import ROOT

sys.path.insert(0, str(ROOT / "sdk" / "python" / "farandole" / "_dropin"))

import horovod.tensorflow  # noqa: E402

# Of horovod 0.28.1.
ARGUMENTS = {
    "allreduce": "tensor average device_dense device_sparse compression op prescale_factor postscale_factor name "
    "process_set ignore_name_scope",
    "grouped_allreduce": "tensors average device_dense device_sparse compression op prescale_factor postscale_factor "
    "process_set ignore_name_scope name",
    "reducescatter": "tensor device_dense compression op name process_set ignore_name_scope prescale_factor "
    "postscale_factor",
    "grouped_reducescatter": "tensors device_dense compression op process_set prescale_factor postscale_factor",
    "allgather": "tensor name ignore_name_scope process_set",
    "grouped_allgather": "tensors name ignore_name_scope process_set",
    "broadcast": "tensor root_rank name ignore_name_scope process_set",
    "broadcast_": "variables root_rank name process_set",
    "alltoall": "tensor splits name ignore_name_scope process_set",
    "join": "",
    "init": "comm process_sets",
    "size_op": "process_set_id name",
    "process_set_included_op": "process_set_id name",
    "rank_op": "name",
    "local_rank_op": "name",
    "local_size_op": "name",
    "broadcast_variables": "variables root_rank process_set inplace",
    "broadcast_object": "obj root_rank session name process_set",
    "broadcast_object_fn": "root_rank session name process_set",
    "allgather_object": "obj session name process_set",
    "broadcast_global_variables": "root_rank",
    "DistributedOptimizer": "optimizer name use_locking device_dense device_sparse compression sparse_as_dense "
    "backward_passes_per_step op gradient_predivide_factor average_aggregated_gradients num_groups groups process_set "
    "scale_local_gradients",
    "DistributedGradientTape": "gradtape device_dense device_sparse compression sparse_as_dense op "
    "gradient_predivide_factor num_groups groups process_set scale_local_gradients",
    "PartialDistributedGradientTape": "gradtape device_dense device_sparse compression sparse_as_dense op "
    "gradient_predivide_factor num_groups groups process_set local_layers scale_local_gradients",
    "elastic.run": "func",
    "elastic.TensorFlowKerasState": "model optimizer backend",
    "elastic.TensorFlowState": "variables session",
}


def test_functions_are_as_described() -> None:
    signatures.require_described(farandole.tensorflow)


def test_arguments_have_horovods_names_and_order() -> None:
    signatures.require_horovods(horovod.tensorflow, ARGUMENTS)
