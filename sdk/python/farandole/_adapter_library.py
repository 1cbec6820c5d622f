"""The libraries beside the worker library, one for each framework, which calls them."""

import ctypes

from . import _options


def connected(name: str, what: str) -> ctypes.CDLL:
    """The library of this name, which has found the worker library. `what` it has, for people. ImportError: it cannot be
    loaded."""
    try:
        library = ctypes.CDLL(str(_options.library_beside(name)))
    except OSError as error:
        raise ImportError(f"{what} cannot be loaded: {error}") from None
    library.farandole_adapter_connect.restype = ctypes.c_char_p
    reason = library.farandole_adapter_connect(_options.library_path().encode(), _options.deepbind())
    if reason is not None:
        raise ImportError(f"{what} cannot use the worker library: {reason.decode()}")
    return library
