"""Not there yet: importing it says so."""

raise ImportError(
    "horovod.mxnet is not in this version of farandole, which has PyTorch (horovod.torch) and NumPy (farandole.numpy)"
)
