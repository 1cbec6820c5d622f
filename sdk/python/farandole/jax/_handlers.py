"""The handlers of libfarandole_jax.so, which XLA calls: one library for all versions of JAX from 0.4.38 on."""

from typing import Dict

import jax

from .._adapter_library import connected

OPERATIONS = ("allreduce", "allgather", "broadcast", "reducescatter", "alltoall", "gather", "scatter")
# Of JAX's platforms, XLA's names and the ends of the handlers' names.
_PLATFORMS = {"cpu": ("cpu", ""), "cuda": ("CUDA", "_gpu")}


def _register() -> Dict[str, str]:
    library = connected("libfarandole_jax.so", "farandole's handlers for JAX")
    instantiate = jax.ffi.pycapsule(library.farandole_jax_instantiate)
    for platform, end in _PLATFORMS.values():
        for operation in OPERATIONS:
            execute = jax.ffi.pycapsule(getattr(library, f"farandole_jax_{operation}{end}"))
            stages = {"instantiate": instantiate, "execute": execute}
            jax.ffi.register_ffi_target(f"farandole_{operation}", stages, platform=platform)
    return {operation: f"farandole_{operation}" for operation in OPERATIONS}


PLATFORMS = tuple(_PLATFORMS)
TARGETS = _register()
"""The names by which programs call them."""
