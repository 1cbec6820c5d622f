"""One order of all calls of a program, whatever function, loop or branch they stand in.

XLA keeps no order between custom calls, and each rank compiles for itself. So each call takes a ticket, a byte without
meaning, and gives one: the program's calls form a chain, in which each needs the result of the one before. While JAX
lowers a program, nobody knows what follows a call. Therefore this module links the chain in the finished module of
StableHLO, before XLA gets it: a function takes a ticket and returns one, a loop carries it, and a branch returns it
(docs/decisions/0022-jax.md).
"""

import threading
from typing import Any, Dict, List, Sequence

import jax
import numpy
from jax.interpreters import mlir

ir = mlir.ir

_UNLINKED = "_without_order"
"""The end of a call's target until it is in the chain. XLA knows no such target, and refuses a program that has one."""

_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
"""JAX's event at the end of the lowering of a program, in the thread that lowered it."""

_SYMBOLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""What calls a function of the module, and which of its attributes has the name."""


def unlinked(target: str) -> str:
    """The target that a call has before the module is finished. Its last argument is a ticket of `first_ticket()`, and
    its last result is one as well."""
    return target + _UNLINKED


def first_ticket() -> Any:
    """That of a call that waits for none, at the insertion point."""
    return mlir.ir_constant(numpy.zeros(1, numpy.uint8))


class _Pending(threading.local):
    """The module that this thread lowers and that has calls."""

    module: Any = None


_pending = _Pending()


def link_when_lowered(module: Any) -> None:
    """Links the module's calls when JAX has finished it. The thread that lowers it calls this before."""
    _pending.module = module


def _on_event(event: str, _duration: float, **_kwargs: Any) -> None:
    # Another module may be lowered within this one, and this one may have failed: neither has its function finished.
    if event == _LOWERED and _pending.module is not None and _is_finished(_pending.module):
        module, _pending.module = _pending.module, None
        with module.context, ir.Location.unknown():
            _Chain(module).link()


jax.monitoring.register_event_duration_secs_listener(_on_event)


def _functions(module: Any) -> Dict[str, Any]:
    operations = (each.operation for each in module.body.operations)
    return {each.attributes["sym_name"].value: each for each in operations if each.name == "func.func"}


def _block(operation: Any, region: int = 0) -> Any:
    """The block of one of the operation's regions: in StableHLO each has one."""
    return operation.regions[region].blocks[0]


def _operations(block: Any) -> List[Any]:
    return [each.operation for each in block.operations]


def _is_finished(module: Any) -> bool:
    main = _functions(module).get("main")
    operations = _block(main).operations if main is not None else []
    return len(operations) > 0 and operations[len(operations) - 1].operation.name == "func.return"


def _replace(operation: Any, operands: Sequence[Any], types: Sequence[Any]) -> Any:
    """Makes an operation anew with other operands, and with more results, and returns it."""
    attributes = [operation.attributes[index] for index in range(len(operation.attributes))]
    with operation.location, ir.InsertionPoint(operation):
        made = ir.Operation.create(
            operation.name,
            results=types,
            operands=operands,
            attributes={each.name: each.attr for each in attributes},
            regions=len(operation.regions),
        )
    for old, new in zip(operation.regions, made.regions):
        for block in list(old.blocks):
            block.append_to(new)
    for old, new in zip(operation.results, made.results):
        old.replace_all_uses_with(new)
    operation.erase()
    return made


class _Chain:
    """Of the calls of one module. Its functions run in the module's context."""

    def __init__(self, module: Any) -> None:
        self._functions = _functions(module)
        self._known: Dict[str, bool] = {}
        self._ticket_type = ir.RankedTensorType.get([1], ir.IntegerType.get_unsigned(8))

    def link(self) -> None:
        # Look at all functions before any call is linked: a linked one is not told from others.
        holding = [name for name in self._functions if self._function_holds(name)]
        for name in holding:
            function = self._functions[name]
            block = _block(function)
            if name == "main":
                with ir.InsertionPoint.at_block_begin(block):
                    ticket = first_ticket()
                self._pass_through(block, ticket)
            else:
                self._return_more(block, self._pass_through(block, self._add_argument(block)))
                self._widen(function)

    # ---- What holds calls

    def _function_holds(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._holds(self._functions[name])
        return self._known[name]

    def _holds(self, operation: Any) -> bool:
        name = operation.name
        if name == "stablehlo.custom_call":
            return str(operation.attributes["call_target_name"].value).endswith(_UNLINKED)
        if name in _SYMBOLS:
            return self._function_holds(operation.attributes[_SYMBOLS[name]].value)
        return any(self._block_holds(block) for region in operation.regions for block in region.blocks)

    def _block_holds(self, block: Any) -> bool:
        return any(self._holds(each) for each in _operations(block))

    # ---- The ticket's way

    def _pass_through(self, block: Any, ticket: Any) -> Any:
        """Hands the ticket from one operation that holds calls to the next, and returns the last one's."""
        for operation in _operations(block):
            if self._holds(operation):
                ticket = self._link(operation, ticket)
        return ticket

    def _link(self, operation: Any, ticket: Any) -> Any:
        """Gives the operation the ticket, and returns the one that it leaves."""
        name = operation.name
        if name == "stablehlo.custom_call":
            return self._link_call(operation, ticket)
        if name in _SYMBOLS:
            return self._with_ticket(operation, [*operation.operands, ticket])
        if name == "stablehlo.while":
            return self._link_loop(operation, ticket)
        if name in ("stablehlo.case", "stablehlo.if"):
            for index in range(len(operation.regions)):
                block = _block(operation, index)
                self._return_more(block, self._pass_through(block, ticket))
            return self._with_ticket(operation, operation.operands)
        raise NotImplementedError(f"farandole's calls cannot stand within {name}, whose order XLA would choose")

    def _link_call(self, call: Any, ticket: Any) -> Any:
        target = call.attributes["call_target_name"].value
        call.attributes["call_target_name"] = ir.StringAttr.get(target[: -len(_UNLINKED)])
        call.operands[len(call.operands) - 1] = ticket
        return call.results[len(call.results) - 1]

    def _link_loop(self, loop: Any, ticket: Any) -> Any:
        condition, body = _block(loop, 0), _block(loop, 1)
        has_calls = self._block_holds(body)
        # The condition returns its verdict only. Its calls run before the body and before what takes the loop's results.
        self._pass_through(condition, self._add_argument(condition))
        last = self._pass_through(body, self._add_argument(body))
        if not has_calls:
            # XLA would take a ticket that the body does not change for the one before the loop.
            with ir.InsertionPoint(_operations(body)[-1]):
                last = ir.Operation.create("stablehlo.not", results=[self._ticket_type], operands=[last]).results[0]
        self._return_more(body, last)
        return self._with_ticket(loop, [*loop.operands, ticket])

    # ---- Room for a ticket

    def _add_argument(self, block: Any) -> Any:
        return block.add_argument(self._ticket_type, ir.Location.unknown())

    def _with_ticket(self, operation: Any, operands: Sequence[Any]) -> Any:
        """Gives the operation a result more, which it returns."""
        types = [each.type for each in operation.results]
        made = _replace(operation, operands, [*types, self._ticket_type])
        return made.results[len(types)]

    def _return_more(self, block: Any, ticket: Any) -> None:
        end = _operations(block)[-1]
        _replace(end, [*end.operands, ticket], [])

    def _widen(self, function: Any) -> None:
        """Gives the function's type what its block has in more."""
        old = ir.FunctionType(function.attributes["function_type"].value)
        new = ir.FunctionType.get([*old.inputs, self._ticket_type], [*old.results, self._ticket_type])
        function.attributes["function_type"] = ir.TypeAttr.get(new)
        for name in ("arg_attrs", "res_attrs"):
            if name in function.attributes:
                each = [*ir.ArrayAttr(function.attributes[name]), ir.DictAttr.get({})]
                function.attributes[name] = ir.ArrayAttr.get(each)
