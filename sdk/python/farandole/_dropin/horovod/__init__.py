"""Horovod's names for Farandole: `import horovod.torch as hvd` in a program that was written for Horovod.

`farandole run --horovod` puts this folder in front of PYTHONPATH; nothing is installed over a Horovod that is there. The
modules hold names only, all of them Farandole's.
"""

from farandole.runner import run  # noqa: F401

# Of the Horovod whose names these are, which programs compare; farandole.__version__ is Farandole's.
__version__ = "0.28.1"
