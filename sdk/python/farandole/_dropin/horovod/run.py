"""farandole.runner by the name that it had before Horovod 0.20. The module takes the place of the function `horovod.run`, so
it can be called as that."""

import sys
import types

from farandole.runner import run, run_commandline  # noqa: F401


class _Run(types.ModuleType):
    __call__ = staticmethod(run)


sys.modules[__name__].__class__ = _Run
