"""The functions on objects by Horovod's name."""

from farandole.mxnet import allgather_object, broadcast_object  # noqa: F401
