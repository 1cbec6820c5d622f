"""The forms in which arrays travel."""

from typing import Any, Optional, Tuple, Type

import jax
import jax.numpy as jnp


class Compressor:
    """To be derived from, for a form of one's own; the class itself is what the operations take."""

    @staticmethod
    def compress(tensor: jax.Array) -> Tuple[jax.Array, Any]:
        """The array to send, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: jax.Array, ctx: Any) -> jax.Array:
        """The received array in its former form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends arrays as they are."""

    @staticmethod
    def compress(tensor: jax.Array) -> Tuple[jax.Array, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: jax.Array, ctx: Any) -> jax.Array:
        return tensor


class _HalfCompressor(Compressor):
    dtype: Any

    @classmethod
    def compress(cls, tensor: jax.Array) -> Tuple[jax.Array, Optional[Any]]:
        if tensor.dtype in (jnp.float32, jnp.float64):
            return tensor.astype(cls.dtype), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: jax.Array, ctx: Optional[Any]) -> jax.Array:
        return tensor if ctx is None else tensor.astype(ctx)


class FP16Compressor(_HalfCompressor):
    """Sends float32 and float64 as float16: half or a quarter of the bytes, 11 bits of precision, values up to
    65,504."""

    dtype = jnp.float16


class BF16Compressor(_HalfCompressor):
    """Sends float32 and float64 as bfloat16: half or a quarter of the bytes, 8 bits of precision, the range of
    float32."""

    dtype = jnp.bfloat16


class Compression:
    """The compressors that come with Farandole."""

    none: Type[Compressor] = NoneCompressor
    fp16: Type[Compressor] = FP16Compressor
    bf16: Type[Compressor] = BF16Compressor
