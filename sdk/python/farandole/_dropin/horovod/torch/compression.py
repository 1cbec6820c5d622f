"""farandole.torch.compression by Horovod's name."""

from farandole.torch.compression import (  # noqa: F401
    Compression,
    Compressor,
    FP16Compressor,
    NoneCompressor,
)
