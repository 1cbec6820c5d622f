"""The names of ops in graphs, by which ranks pair them, and the order of calls whose ops have one name.

Ranks pair the ops of one name in the order in which they run. TensorFlow runs what is ready, so two ranks may run ops in
different orders. Therefore no two ops of a graph have one name. Calls of functions in which the same names occur run one
after the other, as the program states them, and so do the iterations of a loop. (Those of tf.function's loops do so by
themselves where an op is stateful, as these are.)
"""

import re
import weakref
from typing import Any, Dict, FrozenSet, Iterator, Optional

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import auto_control_deps

_OP_PREFIX = "Farandole"

_names: "weakref.WeakKeyDictionary[Any, Dict[str, int]]" = weakref.WeakKeyDictionary()
_last_calls: "weakref.WeakKeyDictionary[Any, Dict[str, Any]]" = weakref.WeakKeyDictionary()
_names_in: "weakref.WeakKeyDictionary[Any, FrozenSet[str]]" = weakref.WeakKeyDictionary()


def name_for(graph: Any, kind: str, name: Optional[str]) -> str:
    """The name of an op that is made now; of one without a name, by its kind and place."""
    _run_iterations_in_turn(graph)
    return _only_in(graph, name) if name else _name_from_place(graph, kind)


def end_with(made: Any) -> None:
    """Has a call of the present function end with the op that has made these tensors, also where TensorFlow sees to the
    outputs only: in the functions of gradients."""
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, "control_outputs") or getattr(graph, "experimental_acd_manager", None) is not None:
        return
    first = tf.nest.flatten(made)[0]
    graph.control_outputs.append(getattr(first, "op", first))


def _run_iterations_in_turn(graph: Any) -> None:
    """Of the loops of a v1 graph in which an op is made now."""
    context = graph._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext():
            context._parallel_iterations = 1
            for enter in context.loop_enters:
                enter.op._set_attr("parallel_iterations", attr_value_pb2.AttrValue(i=1))
        context = context.outer_context


def _count(graph: Any, key: str) -> int:
    """How many ops of this key the graph has, with the one that is made now."""
    counts = _names.setdefault(graph, {})
    counts[key] = counts.get(key, 0) + 1
    return counts[key]


def _name_from_place(graph: Any, kind: str) -> str:
    """A name that all ranks give the op: the function's, without the number of the trace, and the op's count in it."""
    function = re.sub(r"_\d+$", "", getattr(graph, "name", "graph"))
    return f"{function}/{kind}.{_count(graph, kind)}"


def _only_in(graph: Any, name: str) -> str:
    """The name, with a number if the graph has an op of this name already."""
    count = _count(graph, f"name {name}")
    return name if count == 1 else f"{name}#{count}"


def _functions(attributes: Any) -> Iterator[str]:
    """The names of the functions among the attributes of a node."""
    for attribute in attributes.values():
        if attribute.func.name:
            yield attribute.func.name
        for function in attribute.list.func:
            yield function.name


def _names_of(graph: Any, function_name: str) -> FrozenSet[str]:
    """The names of the ops that a function runs, also those of the functions that it calls."""
    function = graph._get_function(function_name)
    if function is None:
        return frozenset()
    known = _names_in.get(function)
    if known is None:
        found = set()
        for node in function.definition.node_def:
            if node.op.startswith(_OP_PREFIX) and "tensor_name" in node.attr:
                found.add(node.attr["tensor_name"].s.decode())
            for called in _functions(node.attr):
                found |= _names_of(function.graph, called)
        known = _names_in[function] = frozenset(found)
    return known


def _order(op: Any, _reads: Any, _writes: Any) -> bool:
    """For each op of a function, in the order of the program: a call waits for the last one in which the same names occur."""
    if not any(attribute.type in ("func", "list(func)") for attribute in op.op_def.attr):
        return False
    names = {name for called in _functions(op.node_def.attr) for name in _names_of(op.graph, called)}
    last = _last_calls.setdefault(op.graph, {})
    before = {last[name] for name in names if name in last and last[name] is not op}
    op._add_control_inputs(before)
    last.update((name, op) for name in names)
    return False


def order_calls() -> None:
    """Has tf.function do so from now on."""
    auto_control_deps.register_acd_resource_resolver(_order)
