"""The forms in which tensors travel."""

from typing import Any, Optional, Tuple, Type

import tensorflow as tf


class Compressor:
    """Derive a class from it for a form of your own; the operations take the class itself."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> Tuple[tf.Tensor, Any]:
        """The tensor to send, and the context that decompress() needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        """The received tensor in its former form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> Tuple[tf.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        return tensor


class _HalfCompressor(Compressor):
    dtype: tf.DType

    @classmethod
    def compress(cls, tensor: tf.Tensor) -> Tuple[tf.Tensor, Optional[tf.DType]]:
        if tensor.dtype in (tf.float32, tf.float64):
            return tf.cast(tensor, cls.dtype), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Optional[tf.DType]) -> tf.Tensor:
        return tensor if ctx is None else tf.cast(tensor, ctx)


class FP16Compressor(_HalfCompressor):
    """Sends float32 and float64 as float16: half or a quarter of the bytes, 11 bits of precision, values up to
    65,504."""

    dtype = tf.float16


class BF16Compressor(_HalfCompressor):
    """Sends float32 and float64 as bfloat16: half or a quarter of the bytes, 8 bits of precision, the range of
    float32."""

    dtype = tf.bfloat16


class Compression:
    """The compressors that come with Farandole."""

    none: Type = NoneCompressor
    fp16: Type = FP16Compressor
    bf16: Type = BF16Compressor
