"""Compiled code calls this package between its compiled parts: the compiler does not look into the calls."""

import importlib.abc
import importlib.util
import sys
from typing import Any, Optional

_COMPILER = "torch._dynamo"
_PACKAGE = __name__.partition(".")[0]


def _keep_out() -> None:
    from torch._dynamo import trace_rules  # pylint: disable=import-outside-toplevel; it takes seconds

    trace_rules.add(_PACKAGE)


class _Finder(importlib.abc.MetaPathFinder):
    """Tells the compiler as soon as a program imports it, which few programs do."""

    def find_spec(self, fullname: str, _path: Any, _target: Any = None) -> Optional[Any]:
        """None but for the compiler, as others find it."""
        if fullname != _COMPILER or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_tell(module: Any) -> None:
            execute(module)
            _keep_out()

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


def tell_compiler() -> None:
    """To be called once, when the package is imported."""
    if _COMPILER in sys.modules:
        _keep_out()
    else:
        sys.meta_path.insert(0, _Finder())
