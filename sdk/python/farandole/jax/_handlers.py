"""The handlers of libfarandole_jax.so, which XLA calls: one library for all versions of JAX from 0.4.38 on."""

import ctypes
from typing import Dict

import jax

from .. import _options

OPERATIONS = ("allreduce", "allgather", "broadcast", "reducescatter", "alltoall", "gather", "scatter")
# Of JAX's platforms, XLA's names and the ends of the handlers' names.
_PLATFORMS = {"cpu": ("cpu", ""), "cuda": ("CUDA", "_gpu")}


def _register() -> Dict[str, str]:
    path = str(_options.library_beside("libfarandole_jax.so"))
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"farandole's handlers for JAX cannot be loaded: {error}") from None
    library.farandole_jax_connect.restype = ctypes.c_char_p
    reason = library.farandole_jax_connect(_options.library_path().encode(), _options.deepbind())
    if reason is not None:
        raise ImportError(f"farandole's handlers for JAX cannot use the worker library: {reason.decode()}")
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
