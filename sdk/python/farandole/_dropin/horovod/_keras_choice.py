"""Whether horovod.keras means tf-keras: programs of Horovod's time do, and say so by TF_USE_LEGACY_KERAS, as TensorFlow itself
understands it, or have no other Keras."""

import importlib.metadata
import os


def _is_legacy() -> bool:
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return True
    try:
        return importlib.metadata.version("keras").startswith("2.")
    except importlib.metadata.PackageNotFoundError:
        return False


IS_LEGACY = _is_legacy()
