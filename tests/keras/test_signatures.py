"""Keras's functions are those of the one description, and have Horovod's parameters in Horovod's order: in a process of
its own for each Keras."""

import os
import subprocess
import sys

import pytest
from harness import ROOT

OPERATIONS = """
    "allreduce": "value name average prescale_factor postscale_factor op compression",
    "allgather": "value name",
    "broadcast": "value root_rank name",
    "reducescatter": "value name op",
    "init": "comm process_sets",
    "broadcast_global_variables": "root_rank",
    "load_model": "filepath custom_optimizers custom_objects compression legacy_opts",
    "callbacks.BroadcastGlobalVariablesCallback": "root_rank device",
    "callbacks.LearningRateScheduleCallback": "initial_lr multiplier start_epoch end_epoch staircase "
    "momentum_correction steps_per_epoch",
    "callbacks.LearningRateWarmupCallback": "initial_lr warmup_epochs momentum_correction steps_per_epoch verbose",
"""
FIRST = "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor op"

# Of horovod 0.28.1.
KERAS = f"""
import farandole.keras, horovod.keras, signatures
signatures.require_described(farandole.keras)
signatures.require_horovods(horovod.keras, {{{OPERATIONS}
    "DistributedOptimizer": "{FIRST} num_groups groups",
    "PartialDistributedOptimizer": "{FIRST} groups process_set local_layers scale_local_gradients",
}})
"""
TF_KERAS = f"""
import farandole.tensorflow.keras, horovod.tensorflow.keras, signatures
signatures.require_described(farandole.tensorflow.keras)
signatures.require_horovods(horovod.tensorflow.keras, {{{OPERATIONS}
    "DistributedOptimizer": "{FIRST} backward_passes_per_step average_aggregated_gradients num_groups groups "
    "process_set scale_local_gradients",
}})
"""


@pytest.mark.parametrize(
    "program,variables",
    [
        (KERAS, {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}),
        (TF_KERAS, {"KERAS_BACKEND": "tensorflow"}),
        (TF_KERAS, {"TF_USE_LEGACY_KERAS": "1"}),
    ],
    ids=["keras", "tf.keras", "tf-keras"],
)
def test_functions_are_as_described_and_as_horovods(program: str, variables: "dict[str, str]") -> None:
    dropin = ROOT / "sdk" / "python" / "farandole" / "_dropin"
    path = os.pathsep.join([str(dropin), str(ROOT / "tests" / "python")])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
