"""Pickling objects for other processes, and making them of pickles, for tensors on any device."""

import io
import pickle
import types
from typing import Any

try:  # It also pickles lambdas and classes of __main__; pickle reads its output.
    from cloudpickle import CloudPickler as Pickler
    from cloudpickle import dumps as dumps_for_others
except ImportError:
    _REMEDY = "cloudpickle does that, which this Python lacks: pip install cloudpickle"

    class Pickler(pickle.Pickler):  # type: ignore[no-redef]
        """pickle's own, whose errors name a remedy."""

        def dump(self, obj: Any) -> None:
            try:
                super().dump(obj)
            except (AttributeError, pickle.PicklingError) as error:
                raise pickle.PicklingError(f"{error}; {_REMEDY}") from error

    class _PicklerForOthers(Pickler):
        def reducer_override(self, obj: Any) -> Any:
            """The other ranks would look for an object of the main program in their own main program."""
            if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
                raise pickle.PicklingError(f"pickle cannot send {obj.__qualname__} of the main program")
            return NotImplemented

    def dumps_for_others(obj: Any) -> bytes:
        file = io.BytesIO()
        _PicklerForOthers(file, protocol=pickle.DEFAULT_PROTOCOL).dump(obj)
        return file.getvalue()


__all__ = ["Pickler", "Unpickler", "dumps", "dumps_for_others", "loads"]


def dumps(obj: Any) -> bytes:
    """An object's pickle for processes of the same program; dumps_for_others: of other programs."""
    file = io.BytesIO()
    Pickler(file, protocol=pickle.DEFAULT_PROTOCOL).dump(obj)
    return file.getvalue()


class Unpickler(pickle.Unpickler):
    """As pickle's, but a tensor of a CUDA GPU comes to this thread's current one, or into the host's memory where there is
    none. torch would look for the GPU that has the sender's number: rank 0's, on all ranks."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """The object that a pickle names."""
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
