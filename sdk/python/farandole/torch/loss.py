"""The loss over all ranks, for optimizers that decide by it."""

import numbers
from typing import Any

import torch

from ..reduce_ops import Average, Sum
from . import ops
from .exchange import Settings


def reduce_loss(loss: Any, settings: Settings) -> Any:
    """The loss reduced as gradients are. A loss that is no number, as None, and other reductions pass as they are."""
    if settings.op not in (Average, Sum) or not isinstance(loss, (torch.Tensor, numbers.Real)):
        return loss
    tensor = loss.detach() if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.float64)
    reduced = ops.allreduce_async(
        tensor, None, "allreduce.loss", settings.op, process_set=settings.process_set
    ).synchronize()
    return reduced if isinstance(loss, torch.Tensor) else reduced.item()
