"""Gradients that travel as bytes, with a scale for each block of them."""

import numbers
from typing import Dict, Optional, Tuple

import torch
from torch.nn.functional import pad

from ..reduce_ops import Average
from . import ops
from .exchange import Exchange, GradientExchange, Terms, remainder

_MOST = 127.0


class Int8(GradientExchange):
    """Sends gradients as 8-bit integers, with a float32 scale for each block of them: a quarter of the bytes of float32.
    Each rank sends each other one its part, adds up what it gets as float32, and sends the sum to all, once more as
    8-bit integers. The next step's gradient gets the rounding error back (Seide et al.: 1-Bit Stochastic Gradient
    Descent, 2014; Dettmers: 8-Bit Approximations for Parallelism in Deep Learning, 2015).

    Gradients of fewer than `min_elements` elements, and those of integers, travel as they are.

    block: elements with a scale of their own. error_feedback: what rounding has taken is kept, at the cost of memory of
    the gradient's size as float32 and of the sum's part. Where ranks have joined, gradients travel as they are. ValueError: an argument is out of bounds.
    """

    def __init__(self, block: int = 256, min_elements: int = 4096, error_feedback: bool = True) -> None:
        are_numbers = isinstance(block, numbers.Real) and isinstance(min_elements, numbers.Real)
        if not are_numbers or block < 1 or min_elements < 0:
            raise ValueError(
                f"Int8 needs block >= 1 and min_elements >= 0, not block={block!r}, min_elements={min_elements!r}"
            )
        self._block, self._min_elements, self._keeps_error = block, min_elements, error_feedback
        # By names: what rounding has taken from this rank's gradient, and from the sum of its part.
        self._errors: Dict[str, Optional[torch.Tensor]] = {}
        self._shapes: Dict[str, torch.Size] = {}  # of the gradients that these are of

    def begin_epoch(self) -> None:
        self._errors, self._shapes = {}, {}

    def _is_shortened(self, gradient: torch.Tensor) -> bool:
        return gradient.numel() >= max(1, self._min_elements) and gradient.is_floating_point()

    def opening(self, name: str, like: torch.Tensor) -> Optional[str]:
        return f"{name}.parts" if self._is_shortened(like) else name

    @torch.no_grad()
    def reduce(self, name: str, gradient: torch.Tensor, terms: Terms) -> Exchange:
        if not self._is_shortened(gradient):
            return (yield ops.allreduce_async(gradient, None, name, *terms[:3], process_set=terms.process_set))
        if self._shapes.get(name) != gradient.shape:
            self._shapes[name] = gradient.shape
            for part in ("parts", "sum"):
                self._errors.pop(f"{name}.{part}", None)
        size = terms.process_set.size()
        flat = gradient.reshape(-1).float()
        # Each rank has a part of whole blocks.
        blocks = -(-flat.numel() // (self._block * size))
        parts = pad(flat, (0, blocks * self._block * size - flat.numel())).view(size, blocks, self._block)
        sent, error = self._encode(f"{name}.parts", parts)
        received, _ = yield ops.alltoall_async(sent, None, f"{name}.parts", terms.process_set)
        if len(received) < size:
            # Others have joined: no rank adds up their parts of the sum.
            return (yield ops.allreduce_async(gradient, None, name, *terms[:3], process_set=terms.process_set))
        total = self._decode(received, blocks).sum(dim=0, keepdim=True)
        if terms.op == Average:
            total /= size
        sent, error_of_sum = self._encode(f"{name}.sum", total)
        received = yield ops.allgather_async(sent, f"{name}.sum", terms.process_set)
        result = self._decode(received, blocks).view(-1)[: flat.numel()]
        if self._keeps_error:
            # No block without its scale.
            is_finite = torch.isfinite(received[:, blocks * self._block :].contiguous().view(torch.float32)).all()
            for key, new in ((f"{name}.parts", error), (f"{name}.sum", error_of_sum)):
                self._errors[key] = remainder(is_finite, new, self._errors.get(key))
        return result.to(gradient.dtype).view(gradient.shape)

    def _encode(self, key: str, values: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Of (parts, blocks, block) float32 the bytes, for each part its integers and then its scales; and what rounding
        has taken."""
        error = self._errors.get(key)
        if error is not None:
            values = values + error
        scales = values.abs().amax(dim=2, keepdim=True) / _MOST
        integers = (values / scales.clamp_min(torch.finfo(torch.float32).tiny)).round().to(torch.int8)
        parts = len(values)
        pieces = (integers.view(torch.uint8).view(parts, -1), scales.contiguous().view(torch.uint8).view(parts, -1))
        return torch.cat(pieces, dim=1), values - integers * scales

    def _decode(self, received: torch.Tensor, blocks: int) -> torch.Tensor:
        """The argument of _encode, nearly."""
        end = blocks * self._block
        integers = received[:, :end].contiguous().view(torch.int8).view(-1, blocks, self._block)
        return integers * received[:, end:].contiguous().view(torch.float32).view(-1, blocks, 1)
