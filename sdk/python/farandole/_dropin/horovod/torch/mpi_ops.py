"""The operations by Horovod's name."""

from farandole.torch import *  # noqa: F401,F403

from horovod.common.basics import HorovodBasics

_basics = HorovodBasics()
