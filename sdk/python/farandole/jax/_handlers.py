"""The handlers of libfarandole_jax.so, which XLA calls: one library for all versions of JAX from 0.4.38 on."""

import ctypes
from typing import Dict

from .._adapter_library import connected

try:
    from jax import ffi
except ImportError:  # before 0.5
    from jax.extend import ffi

OPERATIONS = ("allreduce", "allgather", "broadcast", "reducescatter", "alltoall", "gather", "scatter")
# Of JAX's platforms, XLA's names, and whether they are GPUs.
_PLATFORMS = {"cpu": ("cpu", False), "cuda": ("CUDA", True)}


def _register() -> Dict[str, str]:
    library = connected("libfarandole_jax.so", "farandole's handlers for JAX")
    library.farandole_jax_handler.restype = ctypes.c_void_p
    instantiate = ffi.pycapsule(library.farandole_jax_instantiate)
    for platform, is_on_gpu in _PLATFORMS.values():
        for operation in OPERATIONS:
            handler = library.farandole_jax_handler(f"farandole_{operation}".encode(), is_on_gpu)
            execute = ffi.pycapsule(handler)
            stages = {"instantiate": instantiate, "execute": execute}
            ffi.register_ffi_target(f"farandole_{operation}", stages, platform=platform)
    return {operation: f"farandole_{operation}" for operation in OPERATIONS}


PLATFORMS = tuple(_PLATFORMS)
TARGETS = _register()
"""The names by which programs call them."""
