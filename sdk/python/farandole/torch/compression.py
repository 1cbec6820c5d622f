"""The forms in which gradients travel."""

from typing import Any, Optional, Tuple, Type

import torch

from .int8 import Int8
from .powersgd import PowerSGD


class Compressor:
    """Derive a class from it for a form of your own; DistributedOptimizer takes the class itself."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """The tensor to send, and the context that decompress() needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The received tensor in its former form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _HalfCompressor(Compressor):
    dtype: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
        if tensor.dtype in (torch.float32, torch.float64):
            return tensor.to(cls.dtype), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Optional[torch.dtype]) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_HalfCompressor):
    """Sends float32 and float64 as float16: half or a quarter of the bytes, 11 bits of precision, values up to
    65,504."""

    dtype = torch.float16


class BF16Compressor(_HalfCompressor):
    """Sends float32 and float64 as bfloat16: half or a quarter of the bytes, 8 bits of precision, the range of
    float32."""

    dtype = torch.bfloat16


class Compression:
    """The compressors that come with Farandole. Compression.int8() and Compression.powersgd(rank=4) work only in a
    DistributedOptimizer with Average or Sum; see their docstrings."""

    none: Type = NoneCompressor
    fp16: Type = FP16Compressor
    bf16: Type = BF16Compressor
    int8: Type = Int8
    powersgd: Type = PowerSGD
