"""The operations as JAX's primitives, which its transformations know how to compile, differentiate and batch.

They are functions of all ranks' arguments without effects, as jax.lax.psum is: where the same programs run on all ranks,
what JAX does twice it does twice on all of them. In a compiled program each is a custom call that XLA neither merges nor
drops (docs/decisions/0022-jax.md).
"""

import functools
import inspect
import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, partial_eval

from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import NAMES, Adasum, Average, Max, Min, Sum
from ._handlers import OPERATIONS, PLATFORMS, TARGETS, ffi
from ._order import first_ticket, link_when_lowered, unlinked
from .arrays import operations


class Terms(NamedTuple):
    """A call's terms besides its arrays."""

    name: Optional[str] = None
    op: int = Sum
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    process_set: ProcessSet = global_process_set
    rows: Optional[Tuple[int, ...]] = None
    """Of each result that has another number of rows than its argument lets expect."""

    def derived(self, what: str, **changes: Any) -> "Terms":
        """Those of a call that JAX makes of this one, such as its gradient."""
        return self._replace(name=f"{self.name}.{what}" if self.name else None, **changes)


def _share(total: int, process_set: ProcessSet) -> int:
    """This rank's part of so many rows."""
    size, position = process_set.size(), process_set.rank()
    return total // size + (1 if position < total % size else 0)


def _rows(operation: str, rows: int, terms: Terms) -> int:
    """How many rows the result of an argument with so many has."""
    if operation == "allgather":
        return rows * terms.process_set.size()
    if operation == "gather":
        return rows * terms.process_set.size() if _is_root(terms) else 0
    if operation in ("reducescatter", "scatter"):
        return _share(rows, terms.process_set)
    return rows


def _is_root(terms: Terms) -> bool:
    return terms.process_set.ranks[terms.process_set.rank()] == terms.root


def _by_rows(operation: str) -> bool:
    """Whether the operation knows rows, and not only elements."""
    return operation not in ("allreduce", "broadcast")


def _shape_of_result(operation: str, shape: Tuple[int, ...], index: int, terms: Terms) -> Tuple[int, ...]:
    if not _by_rows(operation):
        return shape
    rows = terms.rows[index] if terms.rows is not None else _rows(operation, shape[0], terms)
    return (rows, *shape[1:])


def _evaluate(operation: str, *arrays: Any, terms: Terms) -> List[Any]:
    """On arrays that are there, as grad and vmap call it outside of jit."""
    name, process_set = terms.name, terms.process_set
    factors = {"prescale_factor": terms.prescale, "postscale_factor": terms.postscale}
    if operation == "allreduce":
        return operations.grouped_allreduce(arrays, None, name, terms.op, **factors, process_set=process_set)
    if operation == "reducescatter":
        results = operations.grouped_reducescatter(arrays, name, terms.op, process_set, **factors)
    elif operation == "allgather":
        results = operations.grouped_allgather(arrays, name, process_set)
    elif operation == "alltoall":
        results = [operations.alltoall(array, None, name, process_set) for array in arrays]
    else:
        call: Callable[..., Any] = getattr(operations, operation)
        results = [call(array, terms.root, name, process_set) for array in arrays]
    for index, (array, result) in enumerate(zip(arrays, results)):
        wanted = _shape_of_result(operation, array.shape, index, terms)
        if result.shape != wanted:
            raise ValueError(
                f"{operation}: the ranks' rows make an array of shape {list(result.shape)}, and jit, grad and vmap expect "
                f"{list(wanted)}: there all ranks give equally many rows, and one that has joined gives none"
            )
    return results


def _abstract(operation: str, *arrays: Any, terms: Terms) -> List[Any]:
    return [
        jax.core.ShapedArray(_shape_of_result(operation, array.shape, index, terms), array.dtype)
        for index, array in enumerate(arrays)
    ]


# ---- Compiled programs ----------------------------------------------------------------------------------------------


class _Program:
    """The state of one program while it is compiled."""

    _numbers = itertools.count(1)

    def __init__(self, module: Any) -> None:
        self._name = module.module.operation.attributes["sym_name"].value
        self.number = next(self._numbers)
        """In this process."""
        self._counts: Dict[str, int] = {}

    @classmethod
    def of(cls, module: Any) -> "_Program":
        """That of a module of JAX's, which keeps it among what it has made once."""
        found: Dict[Any, Any] = module.cached_primitive_lowerings
        if cls not in found:
            found[cls] = cls(module)
            link_when_lowered(module.module)
        return found[cls]

    def name_for(self, kind: str, name: Optional[str]) -> str:
        """The name of a call, which all ranks give it alike: its own, or the program's with its kind. The second of a name
        has a number, and so on."""
        base = name or f"{self._name}/{kind}"
        self._counts[base] = self._counts.get(base, 0) + 1
        return base if self._counts[base] == 1 else f"{base}.{self._counts[base]}"


_TICKET = jax.core.ShapedArray((1,), jnp.uint8.dtype)


def _lower(operation: str, context: Any, *arrays: Any, terms: Terms) -> Any:
    """A custom call, which besides takes a ticket and gives one. They link it with the calls before and after it: so all
    ranks run them in the order of the program, whatever else XLA makes of it on each."""
    program = _Program.of(context.module_context)
    with_tickets = context.replace(avals_in=[*context.avals_in, _TICKET], avals_out=[*context.avals_out, _TICKET])
    *results, _ = ffi.ffi_lowering(unlinked(TARGETS[operation]), has_side_effect=True)(
        with_tickets,
        *arrays,
        first_ticket(),
        program=numpy.int64(program.number),
        name=program.name_for(operation, terms.name),
        reduce_op=numpy.int64(terms.op),
        prescale=numpy.float64(terms.prescale),
        postscale=numpy.float64(terms.postscale),
        root=numpy.int64(terms.root),
        group=numpy.int64(terms.process_set.process_set_id),
    )
    return results


_ON_GPUS = {
    "int16": "int32",
    "uint16": "int32",
    "float8_e4m3fn": "float32",
    "float8_e5m2": "float32",
}
"""Types that NCCL reduces not at all, or not with each op and on each GPU, and those that are reduced in their place."""


def _lower_on_gpus(operation: str, context: Any, *arrays: Any, terms: Terms) -> Any:
    """As _lower, for arrays in GPUs."""
    given = [str(aval.dtype) for aval in context.avals_in]
    reduces = operation in ("allreduce", "reducescatter") and terms.op != Adasum
    if not reduces or not any(dtype in _ON_GPUS for dtype in given):
        return _lower(operation, context, *arrays, terms=terms)

    def reduce(*arrays: Any) -> List[Any]:
        wide = [array.astype(_ON_GPUS.get(dtype, dtype)) for array, dtype in zip(arrays, given)]
        results = PRIMITIVES[operation].bind(*wide, terms=terms)
        return [result.astype(dtype) for result, dtype in zip(results, given)]

    return mlir.lower_fun(reduce, multiple_results=True)(context, *arrays)


# ---- Derivatives ----------------------------------------------------------------------------------------------------


def _has_none(tangent: Any) -> bool:
    return isinstance(tangent, ad.Zero) or tangent.dtype == jax.dtypes.float0


def _selected(terms: Terms, indices: Sequence[int], what: str, **changes: Any) -> Terms:
    """The terms of a call that JAX makes of some of a call's arrays."""
    rows = None if terms.rows is None else tuple(terms.rows[index] for index in indices)
    return terms.derived(what, rows=rows)._replace(**changes)


def _no_tangent(result: Any) -> Any:
    return ad.Zero(jax.typeof(result).to_tangent_aval() if hasattr(jax, "typeof") else _tangent_type(result))


def _tangent_type(result: Any) -> Any:
    return jax.core.get_aval(result).to_tangent_aval()


def _differentiate(operation: str, primals: Any, tangents: Any, *, terms: Terms) -> Tuple[List[Any], List[Any]]:
    active = [index for index, tangent in enumerate(tangents) if not _has_none(tangent)]
    if operation in ("allreduce", "reducescatter") and active and terms.op not in (Sum, Average):
        if operation == "allreduce" and terms.op in (Min, Max):
            return _differentiate_extremum(primals, tangents, active, terms)
        raise NotImplementedError(
            f"{operation} with op={NAMES[terms.op]} has no derivative in farandole; use Average or Sum, or "
            "jax.lax.stop_gradient()"
        )
    results = PRIMITIVES[operation].bind(*primals, terms=terms)
    made = [_no_tangent(result) for result in results]
    if active:
        own = _selected(terms, active, "tangent")
        for index, tangent in zip(active, PRIMITIVES[operation].bind(*(tangents[i] for i in active), terms=own)):
            made[index] = tangent
    return results, made


def _differentiate_extremum(
    primals: Any, tangents: Any, active: List[int], terms: Terms
) -> Tuple[List[Any], List[Any]]:
    """The tangent of the ranks that have the extremum; where several have it, their mean."""
    allreduce = PRIMITIVES["allreduce"]
    scaled = [primal * jnp.asarray(terms.prescale, primal.dtype) for primal in primals]
    found = allreduce.bind(*scaled, terms=terms._replace(prescale=1.0, postscale=1.0))
    results = [each * jnp.asarray(terms.postscale, each.dtype) for each in found]
    have = [(scaled[index] == found[index]).astype(found[index].dtype) for index in active]
    factor = terms.prescale * terms.postscale
    sums = terms.derived("tangent", op=Sum, prescale=1.0, postscale=1.0)
    reduced = allreduce.bind(*(mask * tangents[index] for mask, index in zip(have, active)), terms=sums)
    counts = allreduce.bind(*have, terms=sums)
    made = [_no_tangent(result) for result in results]
    for index, total, count in zip(active, reduced, counts):
        made[index] = total / count * jnp.asarray(factor, total.dtype)
    return results, made


# Derivatives of derivatives are to be the same calls on all ranks: where this rank has zeros, JAX must not know it.


def _only_on_root(terms: Terms, arrays: Sequence[Any]) -> List[Any]:
    return [jnp.where(_is_root(terms), array, jnp.zeros_like(array)) for array in arrays]


def _transpose(operation: str, cotangents: Sequence[Any], *arguments: Any, terms: Terms) -> List[Any]:
    """The adjoint over all ranks together: the gradient of the sum of the ranks' losses, as of jax.lax.psum."""
    made: List[Any] = [None] * len(arguments)
    active = [
        index
        for index, (cotangent, argument) in enumerate(zip(cotangents, arguments))
        if ad.is_undefined_primal(argument) and not isinstance(cotangent, ad.Zero)
    ]
    for index, argument in enumerate(arguments):
        if ad.is_undefined_primal(argument):
            made[index] = ad.Zero(argument.aval)
    if active:
        shapes = [arguments[index].aval.shape for index in active]
        given = [cotangents[index] for index in active]
        for index, gradient in zip(active, _adjoint(operation, given, shapes, terms.derived("gradient", rows=None))):
            made[index] = gradient
    return made


def _adjoint(operation: str, given: List[Any], shapes: List[Tuple[int, ...]], terms: Terms) -> List[Any]:
    """The gradients of arguments of these shapes, of those of the results."""
    rows = tuple(shape[0] for shape in shapes) if _by_rows(operation) else None
    bind: Callable[..., List[Any]] = lambda kind, **changes: PRIMITIVES[kind].bind(  # noqa: E731
        *given, terms=terms._replace(**changes)
    )
    if operation == "allreduce":
        return bind("allreduce")
    if operation == "broadcast":
        return _only_on_root(terms, bind("allreduce", op=Sum))
    if operation == "allgather":
        return bind("reducescatter", op=Sum, rows=rows)
    if operation == "reducescatter":
        factor = terms.prescale * terms.postscale / (terms.process_set.size() if terms.op == Average else 1)
        given[:] = [each * jnp.asarray(factor, each.dtype) for each in given]
        return bind("allgather", rows=rows)
    if operation == "alltoall":
        return bind("alltoall")
    if operation == "gather":
        return bind("scatter", rows=rows)
    gathered = bind("gather", rows=rows if _is_root(terms) else (0,) * len(shapes))
    if _is_root(terms):
        return gathered
    # The sum of no rows is zero.
    return [jnp.broadcast_to(each.sum(0), shape) for shape, each in zip(shapes, gathered)]


# ---- vmap -----------------------------------------------------------------------------------------------------------


def _batch(operation: str, arrays: Sequence[Any], dims: Sequence[Optional[int]], *, terms: Terms) -> Any:
    """One call for the whole batch: elements do not care, and rows stay in front."""
    if terms.op == Adasum and operation == "allreduce":
        raise NotImplementedError("allreduce with op=Adasum cannot be batched by vmap: it is of whole tensors")
    if _by_rows(operation):
        arrays = [array if dim is None else jnp.moveaxis(array, dim, 1) for array, dim in zip(arrays, dims)]
        dims = [None if dim is None else 1 for dim in dims]
    return PRIMITIVES[operation].bind(*arrays, terms=terms), list(dims)


def _make(operation: str) -> Primitive:
    primitive = Primitive(f"farandole_{operation}")
    primitive.multiple_results = True
    primitive.def_impl(functools.partial(_evaluate, operation))
    primitive.def_abstract_eval(functools.partial(_abstract, operation))
    ad.primitive_jvps[primitive] = functools.partial(_differentiate, operation)
    ad.primitive_transposes[primitive] = functools.partial(_transpose, operation)
    batching.primitive_batchers[primitive] = functools.partial(_batch, operation)
    # Ranks may differ in which results they use.
    partial_eval.dce_rules[primitive] = lambda _used, equation: ([True] * len(equation.invars), equation)
    # Each place in a program has a name of its own: what JAX made of one is not to serve for another.
    own = {"cacheable": False} if "cacheable" in inspect.signature(mlir.register_lowering).parameters else {}
    for platform in PLATFORMS:
        lower = _lower if platform == "cpu" else _lower_on_gpus
        mlir.register_lowering(primitive, functools.partial(lower, operation), platform=platform, **own)
    return primitive


PRIMITIVES = {operation: _make(operation) for operation in OPERATIONS}
"""By name. Each takes any number of arrays, and `terms`."""
