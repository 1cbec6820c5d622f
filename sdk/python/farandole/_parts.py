"""Grouped calls that take several submissions, because their tensors differ in element type or their operation takes one
tensor at a time."""

from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

from ._handles import Handle, Place
from ._library import ffi

# The shape of a grouped call without tensors.
NO_ELEMENTS = ffi.new("int64_t[]", [0])


def describe_call(
    shapes: Iterable[Tuple[Any, int]],
    dtypes: Sequence[int],
    places: Sequence[Optional[Place]],
    submissions: int,
    memory: List[Any],
) -> Any:
    """For the first of several submissions: its statement of all the call's tensors to the other ranks. `memory` keeps
    it. NULL: the call takes one submission, which states its tensors itself; `shapes` is not read then."""
    if submissions == 1:
        return ffi.NULL
    terms = [(*shape, dtype, place is not None) for shape, dtype, place in zip(shapes, dtypes, places)]
    members = ffi.new("farandole_member[]", terms)
    memory.append((terms, members))
    return ffi.new("farandole_part*", (members, len(terms), 0))


def submit_part(
    handle: Handle, part: Any, place: Optional[Place], function: Callable[..., int], *arguments: Any
) -> None:
    """Adds one of the submissions to the call's handle; `part` is from describe_call."""
    submitted = handle.submit(place, function, *arguments, part)
    if part and not part.first:
        part.first = submitted


def part_name(name: Optional[str], number: int) -> Optional[str]:
    """The name of one of the submissions. The first has the call's own on every rank, for any tensors, so the ranks can
    compare them."""
    return f"{name}.{number}" if name and number > 0 else name
