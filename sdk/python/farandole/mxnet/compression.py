"""The forms in which gradients travel."""

from typing import Any, Tuple, Type

import mxnet as mx
import numpy


class Compressor:
    """To be derived from, for a form of one's own; the class itself is what DistributedTrainer takes."""

    @staticmethod
    def compress(tensor: mx.nd.NDArray) -> Tuple[mx.nd.NDArray, Any]:
        """The array to send, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: Any) -> mx.nd.NDArray:
        """The received array in its former form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends arrays as they are."""

    @staticmethod
    def compress(tensor: mx.nd.NDArray) -> Tuple[mx.nd.NDArray, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: Any) -> mx.nd.NDArray:
        return tensor


class _HalfCompressor(Compressor):
    dtype: Any

    @classmethod
    def compress(cls, tensor: mx.nd.NDArray) -> Tuple[mx.nd.NDArray, Any]:
        is_wide = numpy.dtype(tensor.dtype).name in ("float32", "float64")
        return (tensor.astype(cls.dtype), tensor.dtype) if is_wide else (tensor, None)

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: Any) -> mx.nd.NDArray:
        return tensor if ctx is None else tensor.astype(ctx)


class FP16Compressor(_HalfCompressor):
    """Sends float32 and float64 as float16: half or a quarter of the bytes, 11 bits of precision, values up to
    65,504."""

    dtype = "float16"


class BF16Compressor(_HalfCompressor):
    """Sends float32 and float64 as bfloat16: half or a quarter of the bytes, 8 bits of precision, the range of
    float32."""

    dtype = numpy.dtype([("bfloat16", numpy.uint16)])
    """As MXNet has it."""


class Compression:
    """The compressors that come with Farandole."""

    none: Type[Compressor] = NoneCompressor
    fp16: Type[Compressor] = FP16Compressor
    bf16: Type[Compressor] = BF16Compressor
