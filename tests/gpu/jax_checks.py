"""Runs checks of tests/jax with arrays in GPUs, on each rank of a job: `farandole run -np N python jax_checks.py MODULE`.

MODULE is one of tests/jax/jax_checks (`ops`, `programs`, ...), or `refused`. Compiled programs give their arrays to
Farandole in XLA's stream; calls outside of jit go through the host. Goes on after a check that fails, prints its error,
and ends with 1. Ranks share a GPU where there are fewer.
"""

import importlib
import os
import pathlib
import sys
import traceback
from typing import Callable, Dict, List

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "jax"), str(TESTS / "python")]
# Before JAX is imported. Ranks that share a GPU cannot take three quarters of its memory each, and are hosts of their
# own to NCCL, which refuses them otherwise.
os.environ.update(
    {
        "JAX_PLATFORMS": "cuda",
        "JAX_ENABLE_X64": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "NCCL_HOSTID": f"process{os.getpid()}",
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    }
)

import farandole.jax as hvd  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from harness import expect_error  # noqa: E402

# One asks for the addresses of arrays in the host's memory; of the other, see adasum_is_refused.
SKIPPED = {"memory_is_shared_in_both_directions", "adasum_of_equal_tensors_is_their_mean"}


def adasum_is_refused() -> None:
    """NCCL has no such reduction, and a program that runs in a GPU cannot wait for the host's."""
    program = jax.jit(lambda array: hvd.allreduce(array, op=hvd.Adasum))
    expect_error(jax.errors.JaxRuntimeError, lambda: program(jnp.ones(4)).block_until_ready(), "Adasum", "GPUs")
    assert hvd.allreduce(jnp.ones(4), op=hvd.Adasum).tolist() == [1.0] * 4


def checks_of(module: str) -> Dict[str, Callable[[], None]]:
    """By name."""
    if module == "refused":
        return {"adasum_is_refused": adasum_is_refused}
    functions = importlib.import_module(f"jax_checks.{module}").check.functions
    return {name: function for name, function in functions.items() if name not in SKIPPED}


def failures(module: str) -> List[str]:
    """The checks that have failed, whose errors are printed."""
    failed = []
    for name, function in checks_of(module).items():
        try:
            function()
        except BaseException:  # pylint: disable=broad-except; whatever it is belongs into the output
            print(f"{name} on rank {hvd.rank()}: FAILED\n{traceback.format_exc()}", flush=True)
            failed.append(name)
    return failed


def main() -> int:
    """The exit code."""
    hvd.init()
    failed = failures(sys.argv[1])
    if hvd.rank() == 0:
        print(f"{sys.argv[1]} on {hvd.size()} ranks, {jax.devices()[0]}: {len(failed)} failed", flush=True)
    hvd.shutdown()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
