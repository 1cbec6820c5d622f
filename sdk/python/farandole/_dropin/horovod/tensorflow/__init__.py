"""farandole.tensorflow by Horovod's name."""

from farandole.tensorflow import *  # noqa: F401,F403
from farandole.tensorflow import elastic  # noqa: F401
