"""Small tools of Horovod's programs: of eager execution, and of variables in the place of keys."""

import functools
from typing import Any, Callable, Dict

import tensorflow as _tf


def _executing_eagerly() -> bool:
    """Whether ops run when they are made."""
    return bool(_tf.executing_eagerly())


def _make_subgraph(f: Callable[..., Any]) -> Any:
    """The function as a graph."""
    return _tf.function(f)


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers a function's results for its arguments, eager ones apart from those in graphs."""
    results: Dict[Any, Any] = {}

    @functools.wraps(f)
    def remembered(*args: Any) -> Any:
        key = (args, _executing_eagerly())
        if key not in results:
            results[key] = f(*args)
        return results[key]

    return remembered


def vars_to_refs(vars: Any) -> Any:
    """A variable's reference, which has a hash; of a list, and of lists in it, a tuple of them."""
    return tuple(vars_to_refs(each) for each in vars) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """The opposite."""
    return [refs_to_vars(each) for each in refs] if isinstance(refs, tuple) else refs.deref()
