"""farandole.runner by Horovod's name."""

from farandole.runner import run  # noqa: F401
