"""The operations, once for all array libraries. An adapter says how its arrays lie in memory."""

import operator
from functools import lru_cache
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple, Type

from . import _epochs, _handles
from ._handles import Handle, Place, wait_ms
from ._library import SURFACE_MS, check, ffi, lib
from ._parts import NO_ELEMENTS, describe_call, part_name, submit_part
from .process_sets import ProcessSet, group_of
from .reduce_ops import Adasum

MAX_DIMENSIONS = 32
# So many encoded names are kept.
MOST_NAMES = 8192


# Address, shape and element type (FARANDOLE_F32, ...) of an array.
Description = Tuple[int, Tuple[int, ...], int]

# How a reduction combines, and its factors.
Reduction = Tuple[int, float, float]


class Adapter(Protocol):
    """The view of an array library. One module-level object a library."""

    def describe(self, array: Any) -> Description:
        """Of a contiguous array. ValueError: of no supported kind."""

    def contiguous(self, array: Any, reduction: Optional[Reduction] = None) -> Any:
        """The array itself if it is contiguous where it can travel from, else a copy that is; `reduction`: the
        reduction that will run on it. ValueError: of no supported kind."""

    def empty(self, like: Any, shape: Sequence[int]) -> Any:
        """A new contiguous array of the element type of `like`, in the same memory."""

    def place(self, source: Any) -> Optional[Place]:
        """Where an array that contiguous() has given lies; None: in the host's memory."""

    def deliver(self, array: Any, output: Any) -> Any:
        """`output`, which empty() has made, or a copy of it in the memory that `array` is in."""

    def assign(self, target: Any, source: Any) -> None:
        """Copies the elements of `source` into `target`, which has the same shape."""


class ModuleAdapter(Adapter, Protocol):
    """Of a module whose functions are Operations (_operations.py)."""

    def accept(self, given: Any) -> Any:
        """The array that a caller has given, or what can be made one. ValueError: it cannot."""

    def accept_writable(self, given: Any) -> Any:
        """The same, if it can be written in place. ValueError: it cannot."""

    def whole_numbers(self, splits: Any) -> Optional[List[int]]:
        """An alltoall's splits as a caller has given them; None: all ranks get equally many rows. ValueError: they are
        no whole numbers."""

    def received(self, rows: List[int], splits: Any) -> Any:
        """The rows that each rank gave, as an array like `splits`."""


class _EncodedNames(Dict[str, bytes]):
    """Names for the library. A dictionary answers in half of the time that lru_cache takes."""

    def __missing__(self, name: str) -> bytes:
        if not isinstance(name, str):
            raise ValueError(f"a name is a string, not {name!r}")
        if "\0" in name:
            raise ValueError(f"the name {name!r} holds a NUL character")
        if len(self) >= MOST_NAMES:
            self.clear()
        try:
            encoded = self[name] = name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name {name!r} is no text of Unicode: it holds half of a surrogate pair") from None
        return encoded


encode_name: Callable[[str], bytes] = _EncodedNames().__getitem__
"""A tensor's name for the library. ValueError: it is no string, or holds a NUL, where the library would see its end, or has no
UTF-8."""


def name_for(name: Optional[str]) -> Any:
    """As encode_name; without a name, calls are paired in the order of submission."""
    return encode_name(name) if name else ffi.NULL


def check_factors(prescale: Any, postscale: Any) -> None:
    """ValueError: one of them is no number."""
    for name, factor in (("prescale_factor", prescale), ("postscale_factor", postscale)):
        if type(factor) is not float and (
            isinstance(factor, str) or not (hasattr(factor, "__float__") or hasattr(factor, "__index__"))
        ):
            raise ValueError(f"{name} is a number, not {factor!r}")


def explain(error: BaseException, prescale: Any, postscale: Any, process_set: Any) -> None:
    """For an exception out of a function of direct_calls.c. ValueError: an argument has no C form; it is named."""
    if isinstance(error, (AttributeError, TypeError)):
        check_factors(prescale, postscale)
        group_of(process_set)


def root_for(root: Any) -> int:
    """A root's rank for the library. ValueError: it is no whole number, or one that no job has."""
    try:
        rank = operator.index(root)
    except TypeError:
        rank = 2**31
    if not -(2**31) <= rank < 2**31:
        raise ValueError(f"root_rank is a rank of the job, not {root!r}")
    return rank


def listed(arrays: Any) -> List[Any]:
    """The arrays of a grouped call. ValueError: they are no list."""
    try:
        return list(arrays)
    except TypeError:
        raise ValueError(f"a grouped operation needs a list of arrays, not a {type(arrays).__name__}") from None


@lru_cache(maxsize=8192)
def shape_for(shape: Tuple[int, ...]) -> Tuple[Any, int]:
    """A shape for the library, and its number of dimensions. The memory lives in the cache, and where the caller keeps
    it."""
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"a tensor has {len(shape)} dimensions; at most {MAX_DIMENSIONS} are possible")
    return ffi.new("int64_t[]", shape), len(shape)


def allreduce(
    adapter: Adapter,
    array: Any,
    in_place: bool,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Handle:
    """output = postscale * op over ranks (prescale * array)."""
    check_factors(prescale, postscale)
    source = adapter.contiguous(array, (op, prescale, postscale))
    address, shape, dtype = adapter.describe(source)
    if in_place:
        output, output_address = source, address
    else:
        output = adapter.empty(source, shape)
        output_address = adapter.describe(output)[0]
    dims, ndim = shape_for(shape)
    handle = Handle((source, output, dims), _output_of(adapter, array, output, in_place))
    handle.submit(
        adapter.place(source),
        lib.farandole_allreduce,
        name_for(name),
        address,
        output_address,
        dims,
        ndim,
        dtype,
        op,
        prescale,
        postscale,
        group_of(process_set),
        wait_ms(),
    )
    return handle


def _output_of(adapter: Adapter, array: Any, output: Any, in_place: bool) -> Callable[[Sequence[int]], Any]:
    def collect(_ids: Sequence[int]) -> Any:
        if not in_place:
            return adapter.deliver(array, output)
        if output is not array:
            adapter.assign(array, output)
        return array

    return collect


def grouped_allreduce(
    adapter: Adapter,
    arrays: Sequence[Any],
    in_place: bool,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Handle:
    """Reduces several arrays together; those of one element type are one submission, but that Adasum takes each by
    itself. The output is their list."""
    check_factors(prescale, postscale)
    arrays = listed(arrays)
    sources = [adapter.contiguous(array, (op, prescale, postscale)) for array in arrays]
    outputs = sources if in_place else [adapter.empty(source, adapter.describe(source)[1]) for source in sources]
    described = [adapter.describe(source) for source in sources]
    dtypes = [dtype for _, _, dtype in described]
    places = [adapter.place(source) for source in sources]
    parts: Dict[Any, List[int]] = {}
    for index, (dtype, place) in enumerate(zip(dtypes, places)):
        parts.setdefault(index if op == Adasum else (place is not None, dtype), []).append(index)
    memory: List[Any] = [sources, outputs]

    def collect(_ids: Sequence[int]) -> List[Any]:
        return [_output_of(adapter, array, output, in_place)(_ids) for array, output in zip(arrays, outputs)]

    handle = Handle(memory, collect)
    factors = (op, prescale, postscale, group_of(process_set))
    shapes = (shape_for(shape) for _, shape, _ in described)
    part = describe_call(shapes, dtypes, places, len(parts), memory)
    if not sources:
        nothing = ffi.new("farandole_tensor*", {"shape": NO_ELEMENTS, "ndim": 1})
        handle.submit(
            None,
            lib.farandole_grouped_allreduce,
            name_for(name),
            nothing,
            1,
            lib.FARANDOLE_F32,
            *factors,
            wait_ms(),
            part,
        )
    submissions = list(enumerate(indices for _, indices in sorted(parts.items())))
    for number, indices in submissions:
        tensors = describe_group(adapter, [described[i] for i in indices], [outputs[i] for i in indices])
        memory.append(tensors)
        submit_part(
            handle,
            part,
            places[indices[0]],
            lib.farandole_grouped_allreduce,
            name_for(part_name(name, number)),
            tensors[0],
            len(indices),
            dtypes[indices[0]],
            *factors,
            wait_ms(number == submissions[-1][0]),
        )
    return handle


def describe_group(adapter: Adapter, sources: Sequence[Description], outputs: Sequence[Any]) -> Tuple[Any, List[Any]]:
    """The library's array of tensors, and the shapes that it points to."""
    tensors = ffi.new("farandole_tensor[]", len(sources))
    shapes = []
    for tensor, (address, shape, _), output in zip(tensors, sources, outputs):
        dims, tensor.ndim = shape_for(shape)
        tensor.input = ffi.cast("void*", address)
        tensor.output = ffi.cast("void*", adapter.describe(output)[0])
        tensor.shape = dims
        shapes.append(dims)
    return tensors, shapes


def reducescatter(
    adapter: Adapter,
    arrays: Sequence[Any],
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    is_grouped: bool,
) -> Handle:
    """Reduces each array and gives this rank its part of the rows. The output is the array, or `is_grouped` their
    list."""
    check_factors(prescale, postscale)
    group = group_of(process_set)
    position, size = lib.farandole_group_rank(group), lib.farandole_group_size(group)
    arrays = listed(arrays)
    outputs: List[Any] = []
    memory: List[Any] = [outputs]

    def collect(_ids: Sequence[int]) -> Any:
        delivered = [adapter.deliver(array, output) for array, output in zip(arrays, outputs)]
        return delivered if is_grouped else delivered[0]

    handle = Handle(memory, collect)
    sources = [adapter.contiguous(array, (op, prescale, postscale)) for array in arrays]
    described = [adapter.describe(source) for source in sources]
    places = [adapter.place(source) for source in sources]
    shapes = [shape_for(shape) for _, shape, _ in described]
    part = describe_call(shapes, [dtype for _, _, dtype in described], places, len(sources), memory)
    terms = (op, prescale, postscale, group)
    if not sources:
        nothing = (0, 0, NO_ELEMENTS, 1, lib.FARANDOLE_F32)
        handle.submit(None, lib.farandole_reducescatter, name_for(name), *nothing, *terms, wait_ms(), part)
    for index, (source, (address, shape, dtype)) in enumerate(zip(sources, described)):
        rows = shape[0] // size + (1 if position < shape[0] % size else 0) if shape and size > 0 else 0
        outputs.append(adapter.empty(source, (rows, *shape[1:])))
        memory.append((source, shapes[index]))
        submit_part(
            handle,
            part,
            places[index],
            lib.farandole_reducescatter,
            name_for(part_name(name, index)),
            address,
            adapter.describe(outputs[-1])[0],
            *shapes[index],
            dtype,
            *terms,
            wait_ms(index == len(arrays) - 1),
        )
    return handle


def allgather(adapter: Adapter, array: Any, name: Optional[str], process_set: ProcessSet) -> Handle:
    """Concatenates along the first dimension."""
    source = adapter.contiguous(array)
    address, shape, dtype = adapter.describe(source)
    dims, ndim = shape_for(shape)
    group = group_of(process_set)
    size = lib.farandole_group_size(group)

    def collect(ids: Sequence[int]) -> Any:
        return adapter.deliver(array, _gathered_array(adapter, source, ids[0], size)[0])

    handle = Handle((source, dims), collect)
    terms = (dims, ndim, dtype, group, wait_ms(), ffi.NULL)
    handle.submit(adapter.place(source), lib.farandole_allgather, name_for(name), address, *terms)
    return handle


def grouped_allgather(
    adapter: Adapter,
    arrays: Sequence[Any],
    name: Optional[str],
    process_set: ProcessSet,
    combine: Callable[[List[Any], List[List[int]]], Any] = lambda outputs, _rows: outputs,
    kind: Type[Handle] = Handle,
) -> Handle:
    """As allgather for several arrays. The output is the result of `combine` on their list, and on the rows of each
    array that each rank of the set gave."""
    arrays = listed(arrays)
    sources = [adapter.contiguous(array) for array in arrays]
    group = group_of(process_set)
    size = lib.farandole_group_size(group)
    memory: List[Any] = [sources]

    def collect(ids: Sequence[int]) -> Any:
        gathered_arrays = [_gathered_array(adapter, source, handle, size) for source, handle in zip(sources, ids)]
        outputs = [adapter.deliver(array, output) for array, (output, _) in zip(arrays, gathered_arrays)]
        return combine(outputs, [rows for _, rows in gathered_arrays])

    handle = kind(memory, collect)
    described = [adapter.describe(source) for source in sources]
    places = [adapter.place(source) for source in sources]
    shapes = [shape_for(shape) for _, shape, _ in described]
    part = describe_call(shapes, [dtype for _, _, dtype in described], places, len(sources), memory)
    if not sources:
        nothing = (0, NO_ELEMENTS, 1, lib.FARANDOLE_F32)
        handle.submit(None, lib.farandole_allgather, name_for(name), *nothing, group, wait_ms(), part)
    memory.append(shapes)
    for index, (address, _, dtype) in enumerate(described):
        terms = (*shapes[index], dtype, group, wait_ms(index == len(sources) - 1))
        function, own_name = lib.farandole_allgather, name_for(part_name(name, index))
        submit_part(handle, part, places[index], function, own_name, address, *terms)
    return handle


def alltoall(
    adapter: Adapter,
    array: Any,
    splits: Optional[Sequence[int]],
    name: Optional[str],
    process_set: ProcessSet,
    received: Callable[[List[int]], Any],
) -> Handle:
    """Gives each rank some of the rows. The output is the array, and the result of `received` on the list of rows that
    each rank of the set gave."""
    source = adapter.contiguous(array)
    address, shape, dtype = adapter.describe(source)
    dims, ndim = shape_for(shape)
    group = group_of(process_set)
    size = lib.farandole_group_size(group)
    numbers = ffi.NULL if splits is None else _numbers(list(splits))

    def collect(ids: Sequence[int]) -> Any:
        output, rows = _gathered_array(adapter, source, ids[0], size)
        return adapter.deliver(array, output), received(rows)

    handle = Handle((source, dims, numbers), collect)
    count = 0 if splits is None else len(splits)
    terms = (dims, ndim, dtype, numbers, count, group, wait_ms())
    handle.submit(adapter.place(source), lib.farandole_alltoall, name_for(name), address, *terms)
    return handle


def _numbers(splits: List[int]) -> Any:
    try:
        return ffi.new("int64_t[]", splits)
    except OverflowError:
        beyond = next(number for number in splits if not -(2**63) <= number < 2**63)
        raise ValueError(f"splits are at most {2**63 - 1} rows, not {beyond}") from None


def gather(
    adapter: Adapter, array: Any, root: int, name: Optional[str], process_set: ProcessSet, with_rows: bool
) -> Handle:
    """As allgather on the root; the others' output has no rows."""
    return _with_root(adapter, lib.farandole_gather, array, root, name, process_set, with_rows)


def scatter(adapter: Adapter, array: Any, root: int, name: Optional[str], process_set: ProcessSet) -> Handle:
    """Gives this rank its part of the root's rows."""
    return _with_root(adapter, lib.farandole_scatter, array, root, name, process_set, False)


def _with_root(
    adapter: Adapter,
    function: Any,
    array: Any,
    root: int,
    name: Optional[str],
    process_set: ProcessSet,
    with_rows: bool,
) -> Handle:
    root = root_for(root)
    source = adapter.contiguous(array)
    address, shape, dtype = adapter.describe(source)
    dims, ndim = shape_for(shape)
    group = group_of(process_set)
    size = lib.farandole_group_size(group)

    def collect(ids: Sequence[int]) -> Any:
        output, rows = _gathered_array(adapter, source, ids[0], size)
        output = adapter.deliver(array, output)
        return (output, rows) if with_rows else output

    handle = Handle((source, dims), collect)
    terms = (dims, ndim, dtype, root, group, wait_ms())
    handle.submit(adapter.place(source), function, name_for(name), address, *terms)
    return handle


def _gathered_array(adapter: Adapter, source: Any, handle: int, size: int) -> Tuple[Any, List[int]]:
    _, rows = gathered(handle, size)
    output = adapter.empty(source, (sum(rows), *adapter.describe(source)[1][1:]))
    check(-lib.farandole_copy_result(handle, adapter.describe(output)[0]))
    return output, rows


def gathered(handle: int, size: int) -> Tuple[Tuple[Any, int], List[int]]:
    """Of a complete handle whose result the library has allocated: address and bytes, valid until the handle is
    released, and the rows that each rank of the group gave. `size` is the group's, when the call was submitted: the group
    may have been removed since."""
    data, count = ffi.new("void**"), ffi.new("int64_t*")
    rows = ffi.new("int64_t[]", size)
    code = lib.farandole_result(handle, data, count, rows)
    if code != 0:
        raise _handles.failure(code)
    return (data[0], count[0]), list(rows)


def broadcast(
    adapter: Adapter, array: Any, in_place: bool, root: int, name: Optional[str], process_set: ProcessSet
) -> Handle:
    """The output has the root's elements on every rank."""
    root = root_for(root)
    source = adapter.contiguous(array)
    address, shape, dtype = adapter.describe(source)
    output = source if in_place else adapter.empty(source, shape)
    dims, ndim = shape_for(shape)
    handle = Handle((source, output, dims), _output_of(adapter, array, output, in_place))
    handle.submit(
        adapter.place(source),
        lib.farandole_broadcast,
        name_for(name),
        address,
        adapter.describe(output)[0],
        dims,
        ndim,
        dtype,
        root,
        group_of(process_set),
        wait_ms(),
    )
    return handle


def join() -> int:
    """Takes part in the collectives of the other ranks until all ranks have joined; returns the last one."""
    last = ffi.new("int32_t*")
    _handles.run(lib.farandole_join, last, last)
    _epochs.all_have_joined()
    return last[0]


def barrier(process_set: ProcessSet) -> None:
    """Returns when all ranks of the set have called it. EpochEnded: a worker has died or left."""
    _handles.run(lib.farandole_barrier, None, ffi.NULL, group_of(process_set), SURFACE_MS)
