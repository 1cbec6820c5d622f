"""farandole.tensorflow.compression by Horovod's name."""

from farandole.tensorflow.compression import Compression, Compressor, FP16Compressor, NoneCompressor  # noqa: F401
