"""Values that all ranks get from one of them."""

from typing import Any, List

import jax
import numpy

from .. import objects
from ..process_sets import ProcessSet, global_process_set
from .arrays import operations
from .ops import as_sent, is_traced


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a pytree travels as an array."""
    return isinstance(leaf, (jax.Array, numpy.ndarray, numpy.generic))


def broadcast_parameters(
    params: Any, root_rank: int = 0, process_set: ProcessSet = global_process_set, name: str = "parameters"
) -> Any:
    """Returns the pytree of `root_rank` on every rank of the set: parameters, the state of an optimizer, random keys, whatever
    a model is made of. All ranks give one of the same structure and shapes.

    Arrays of JAX and NumPy travel as such, and become arrays of JAX. Functions, which are leaves of Equinox's models, stay
    this rank's own. Other leaves are pickled. To be called outside of jit: RuntimeError within.
    """
    leaves, structure = jax.tree.flatten(params)
    if is_traced(*leaves):
        raise RuntimeError(
            "broadcast_parameters() is called outside of jit, grad and vmap; within them there is broadcast()"
        )
    places = [index for index, leaf in enumerate(leaves) if is_array(leaf)]
    pairs = [as_sent(leaves[index]) for index in places]
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
