"""The environment variables of the Python SDK itself, and the only place where it reads the environment.

What the worker library reads (FARANDOLE_COORDINATOR and its relatives) is in worker/farandole.h.

| variable             | default                     | meaning                                                        |
|----------------------|-----------------------------|----------------------------------------------------------------|
| FARANDOLE_LIBRARY    | _lib/libfarandole.so beside | path of the worker library                                     |
|                      | this package                |                                                                |
| FARANDOLE_DEEPBIND   | 1                           | 0: open the library without RTLD_DEEPBIND, which ASan refuses  |
"""

import os
import pathlib


def library_path() -> str:
    """Where libfarandole.so is."""
    return os.environ.get("FARANDOLE_LIBRARY") or str(pathlib.Path(__file__).parent / "_lib" / "libfarandole.so")


def deepbind() -> bool:
    """Whether the library gets a symbol scope of its own."""
    return os.environ.get("FARANDOLE_DEEPBIND", "1") != "0"
