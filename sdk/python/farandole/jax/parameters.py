"""Values that all ranks get from one of them."""

from typing import Any, List

import jax
import numpy

from .. import _ops, objects
from .._agreement import Facts, expect_agreement
from ..process_sets import ProcessSet, global_process_set
from .arrays import operations
from .ops import as_sent, is_traced


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a pytree travels as an array."""
    return isinstance(leaf, (jax.Array, numpy.ndarray, numpy.generic))


def _path(keys: Any) -> str:
    """Of a leaf within its pytree, as in an expression; a pytree that is a leaf itself has none."""
    return jax.tree_util.keystr(keys) or "value"


def _kind(leaf: Any, sent: Any) -> Any:
    if sent is not None:
        return list(sent.shape), str(sent.dtype)
    return "a function" if callable(leaf) else "a value that is no array"


def broadcast_parameters(
    params: Any, root_rank: int = 0, process_set: ProcessSet = global_process_set, name: str = "parameters"
) -> Any:
    """Returns the pytree of `root_rank` on every rank of the set: parameters, the state of an optimizer, random keys, whatever
    a model is made of. All ranks give one of the same structure and shapes: ValueError on all of them otherwise.

    Arrays of JAX and NumPy travel as such, and become arrays of JAX. Functions, which are leaves of Equinox's models, stay
    this rank's own. Other leaves are pickled. To be called outside of jit: RuntimeError within.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(params)
    leaves = [leaf for _, leaf in paths]
    if is_traced(*leaves):
        raise RuntimeError(
            "broadcast_parameters() is called outside of jit, grad and vmap; within them there is broadcast()"
        )
    places = [index for index, leaf in enumerate(leaves) if is_array(leaf)]
    pairs = [as_sent(leaves[index]) for index in places]
    sent_at = dict(zip(places, (sent for sent, _ in pairs)))
    root_rank = _ops.root_for(root_rank)
    facts: Facts = [(_path(path), _kind(leaf, sent_at.get(index))) for index, (path, leaf) in enumerate(paths)]
    expect_agreement(name, [("root_rank", root_rank), *facts], process_set)
    handles = [
        operations.broadcast_async(sent, root_rank, f"{name}.{index}", process_set)
        for index, (sent, _) in zip(places, pairs)
    ]
    for index, handle, (_, restore) in zip(places, handles, pairs):
        leaves[index] = restore(handle.synchronize())
    others = [index for index, leaf in enumerate(leaves) if not is_array(leaf) and not callable(leaf)]
    if others:
        given = [leaves[index] for index in others]
        received: List[Any] = objects.broadcast_object(given, root_rank, f"{name}.others", process_set)
        for index, value in zip(others, received):
            leaves[index] = value
    return jax.tree.unflatten(structure, leaves)
