"""The functions on arrays that each framework's module has, beside the one description of them (farandole._operations)
and beside Horovod's. Each framework's tests call this with their module.
"""

import ast
import inspect
import operator
import re
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from farandole import _operations

_OPERATION = re.compile(
    r"(?:grouped_|sparse_)?(?:allreduce|allgather|broadcast|reducescatter|alltoall|gather|scatter|join|barrier)"
    r"(?:_async)?_?"
)

DESCRIBED: Dict[str, Callable[..., Any]] = {
    **{name: function for name, function in vars(_operations.Operations).items() if _OPERATION.fullmatch(name)},
    "join": _operations.join,
    "barrier": _operations.barrier,
}


class Differences(NamedTuple):
    """How a module's functions differ from the described ones. In all that is not here they are as described.

    A row has a function's parameters in their order: `name` as described, `name=VALUE` with a default of its own or one
    that the description lacks (`name=!`: none), `own:name` under a name of its own; `-name` is left out.
    """

    without: str = ""
    beside: Dict[str, str] = {}
    """Functions that the description lacks, and the described one whose row they have."""
    rows: Dict[str, str] = {}


_COMPRESSED = {
    "allreduce": "tensor average name compression=Compression.none op prescale_factor postscale_factor process_set",
    "grouped_allreduce": "tensors average name compression=Compression.none op prescale_factor postscale_factor "
    "process_set",
    "reducescatter": "tensor name compression=Compression.none op process_set prescale_factor postscale_factor",
    "grouped_reducescatter": "tensors name compression=Compression.none op process_set prescale_factor "
    "postscale_factor",
}
_LATER = (
    "allreduce_async allreduce_async_ grouped_allreduce_async allgather_async grouped_allgather_async broadcast_async "
    "broadcast_async_ reducescatter_async grouped_reducescatter_async alltoall_async gather_async scatter_async "
)
# In graphs a name may be given before it is known; Horovod's order.
_SCOPED = "name ignore_name_scope=False process_set"
_REDUCED = "average device_dense='' device_sparse='' compression=Compression.none op prescale_factor postscale_factor"
_PRIORITIZED = "average name priority=0 prescale_factor postscale_factor process_set op"
_SCATTERED = "op name priority=0 process_set prescale_factor postscale_factor"
_KERAS = Differences(
    without=_LATER + "allreduce_ broadcast_ grouped_allreduce grouped_allgather grouped_reducescatter alltoall gather "
    "scatter barrier",
    rows={
        "allreduce": "value:tensor name average prescale_factor postscale_factor op compression=Compression.none "
        "process_set",
        "allgather": "value:tensor name process_set",
        "broadcast": "value:tensor root_rank name process_set",
        "reducescatter": "value:tensor name op process_set -prescale_factor -postscale_factor",
    },
)

DIFFERENCES: Dict[str, Differences] = {
    "farandole.numpy": Differences(),
    "farandole.torch": Differences(
        beside={
            "grouped_allreduce_": "grouped_allreduce",
            "grouped_allreduce_async_": "grouped_allreduce",
            "sparse_allreduce_async": "allreduce_async",
        },
        rows={
            **_COMPRESSED,
            "grouped_allreduce_": "tensors average name op prescale_factor postscale_factor process_set",
            "grouped_allreduce_async_": "tensors average name op prescale_factor postscale_factor process_set",
            "sparse_allreduce_async": "tensor name=! op=Average process_set -average -prescale_factor "
            "-postscale_factor",
            "join": "device=-1",
        },
    ),
    "farandole.jax": Differences(
        without="allreduce_ allreduce_async_ broadcast_ broadcast_async_ grouped_allgather_async reducescatter_async "
        "grouped_reducescatter_async alltoall_async gather_async scatter_async",
        rows=_COMPRESSED,
    ),
    "farandole.tensorflow": Differences(
        without=_LATER + "allreduce_",
        rows={
            "allreduce": f"tensor {_REDUCED} name process_set ignore_name_scope=False",
            "grouped_allreduce": f"tensors {_REDUCED} process_set ignore_name_scope=False name",
            "allgather": f"tensor {_SCOPED}",
            "grouped_allgather": f"tensors {_SCOPED}",
            "broadcast": f"tensor root_rank {_SCOPED}",
            "broadcast_": "variables:tensor root_rank name process_set",
            "alltoall": f"tensor splits {_SCOPED}",
            "gather": f"tensor root_rank {_SCOPED}",
            "scatter": f"tensor root_rank {_SCOPED}",
            "reducescatter": "tensor device_dense='' compression=Compression.none op name process_set "
            "ignore_name_scope=False prescale_factor postscale_factor",
            "grouped_reducescatter": "tensors device_dense='' compression=Compression.none op process_set "
            "prescale_factor postscale_factor ignore_name_scope=False name",
        },
    ),
    "farandole.keras": _KERAS,
    "farandole.tensorflow.keras": _KERAS,
    "farandole.mxnet": Differences(
        without=_LATER,
        beside={"grouped_allreduce_": "grouped_allreduce"},
        rows={
            "allreduce": f"tensor {_PRIORITIZED}",
            "allreduce_": f"tensor {_PRIORITIZED}",
            "grouped_allreduce": f"tensors {_PRIORITIZED}",
            "grouped_allreduce_": f"tensors {_PRIORITIZED}",
            "allgather": "tensor name priority=0 process_set",
            "grouped_allgather": "tensors name priority=0 process_set",
            "reducescatter": f"tensor {_SCATTERED}",
            "grouped_reducescatter": f"tensors {_SCATTERED}",
            "broadcast": "tensor root_rank name priority=0 process_set",
            "broadcast_": "tensor root_rank name priority=0 process_set",
            "alltoall": "tensor splits name priority=0 process_set",
            "gather": "tensor root_rank name priority=0 process_set",
            "scatter": "tensor root_rank name priority=0 process_set",
        },
    ),
}

Parameters = List[Tuple[str, Any]]
_REQUIRED = inspect.Parameter.empty


def _parameters(function: Callable[..., Any]) -> Parameters:
    """Their names and defaults, in their order."""
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.default) for each in found if each.name != "self"]


def _default(module: Any, text: str) -> Any:
    if text == "!":
        return _REQUIRED
    if text[0].isupper() and text not in ("False", "True"):
        return operator.attrgetter(text)(module)
    return ast.literal_eval(text)


def _wanted(module: Any, contract: Parameters, row: str) -> Parameters:
    """The described parameters with a row's differences. AssertionError: the row does not account for one of them."""
    described, left, wanted = dict(contract), dict(contract), []
    for word in row.split():
        name, has_default, text = word.partition("=")
        own, _, name = name.rpartition(":")
        left.pop(name.lstrip("-"), None)
        if word.startswith("-"):
            assert name[1:] in described, f"{word}: the description has no such parameter"
            continue
        assert has_default or name in described, f"{word}: the description has no such parameter"
        wanted.append((own or name, _default(module, text) if has_default else described[name]))
    assert not left, f"the table says nothing of {sorted(left)}"
    return wanted


def require_described(module: Any) -> None:
    """Fails unless the module has the described functions, and each of them the described parameters with the described
    defaults, apart from the differences of the table."""
    own = DIFFERENCES[module.__name__]
    found = {name for name in module.__all__ if _OPERATION.fullmatch(name)}
    assert found == set(DESCRIBED) - set(own.without.split()) | set(own.beside), sorted(found)
    assert set(own.rows) <= found, f"the table has rows of {sorted(set(own.rows) - found)}"
    for name in sorted(found):
        contract = _parameters(DESCRIBED[own.beside.get(name, name)])
        row = own.rows.get(name)
        wanted = contract if row is None else _wanted(module, contract, row)
        assert _parameters(getattr(module, name)) == wanted, f"{name}: {_parameters(getattr(module, name))}"


def require_horovods(module: Any, arguments: Dict[str, str]) -> None:
    """Fails unless the module's functions and classes have these parameters in this order, as Horovod 0.28.1; more may
    follow."""
    wrong = {}
    for name, row in arguments.items():
        wanted = row.split()
        found = [each for each, _ in _parameters(operator.attrgetter(name)(module))]
        if found[: len(wanted)] != wanted:
            wrong[name] = found
    assert not wrong, wrong
