"""The operations by Horovod's name."""

from typing import Any, Dict, Optional

import torch as _torch
from farandole._handles import Handle
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch import *  # noqa: F401,F403
from farandole.torch import allgather_async

from horovod.common.basics import HorovodBasics
from horovod.common.util import get_average_backwards_compatibility_fun

_basics = HorovodBasics()

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)


# For programs that keep tensors by their handles, and ask whether a handle is one. The library's own handles keep their
# tensors themselves, and are not entered.
_handle_map: Dict[Handle, Any] = {}


class _GatherHandle(Handle):
    """Of an allgather into a tensor of the program."""

    __slots__ = ("_gathering", "_into")

    def __init__(self, gathering: Handle, into: _torch.Tensor) -> None:
        super().__init__(None, list)
        self._gathering, self._into = gathering, into

    def poll(self) -> bool:
        """As Handle.poll."""
        return self._gathering.poll()

    def synchronize(self) -> _torch.Tensor:
        """As Handle.synchronize: the program's tensor, which gets the rows of all ranks."""
        gathered = self._gathering.synchronize()
        _handle_map.pop(self, None)
        with _torch.no_grad():
            return self._into.resize_(gathered.shape).copy_(gathered)


def _allgather_async(
    tensor: _torch.Tensor, output: _torch.Tensor, name: Optional[str], process_set: ProcessSet = global_process_set
) -> Handle:
    """As allgather_async; `output` is resized, and gets the rows when the handle is synchronized."""
    handle = _GatherHandle(allgather_async(tensor, name, process_set), output)
    _handle_map[handle] = (tensor, output)
    return handle
