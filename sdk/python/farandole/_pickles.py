"""Pickling objects for other processes, and making them of pickles, on whatever devices their tensors were."""

import io
import pickle
from typing import Any

try:  # It also pickles lambdas and classes of __main__; what it writes, pickle reads.
    from cloudpickle import CloudPickler as Pickler
    from cloudpickle import dumps
except ImportError:
    from pickle import Pickler, dumps

__all__ = ["Pickler", "Unpickler", "dumps", "loads"]


class Unpickler(pickle.Unpickler):
    """As pickle's, but a tensor of a CUDA GPU comes to this thread's current one, or into the host's memory where there is
    none. torch would look for the GPU that has the sender's number: rank 0's, on all ranks."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """What a pickle names."""
        if (module_name, global_name) == ("torch.storage", "_load_from_bytes"):
            return _load_storage
        return super().find_class(module_name, global_name)


def loads(data: Any) -> Any:
    """The object of a pickle, given as bytes or other memory."""
    return Unpickler(io.BytesIO(data)).load()


def _load_storage(content: bytes) -> Any:
    import torch

    def place(storage: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None  # as ever
        return storage.cuda(torch.cuda.current_device()) if torch.cuda.is_available() else storage

    return torch.load(io.BytesIO(content), map_location=place, weights_only=False)
