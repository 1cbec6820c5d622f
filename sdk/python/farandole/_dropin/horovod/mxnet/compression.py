"""farandole.mxnet.compression by Horovod's name."""

from farandole.mxnet.compression import Compression, Compressor, FP16Compressor, NoneCompressor  # noqa: F401
