"""How gradients travel that cannot be reduced where they lie, or that travel together."""

import torch

from .. import _ops
from ..reduce_ops import Sum
from . import ops
from .exchange import GradientExchange, Settings, Terms
from .gradients import Unit, in_agreed_order


def begin(unit: Unit, settings: Settings, terms: Terms) -> bool:
    """Submits what travels for a unit. Whether other ranks do not know all of it yet: a gradient is sparse."""
    grads = [gradient.parameter.grad for gradient in unit.gradients]
    if not settings.sparse_as_dense and any(grad.layout is torch.sparse_coo for grad in grads):
        return _begin_sparse(unit, settings)
    if isinstance(settings.compression, GradientExchange):
        exchange = settings.compression.reduce(unit.name, unit.gradients[0].dense(), terms)
        try:
            unit.handle = next(exchange)
        except StopIteration:
            raise TypeError(f"{type(settings.compression).__name__}.reduce() has begun no operation") from None
        unit.sent = exchange
        return False
    unit.sent = [settings.compression.compress(each.dense()) for each in unit.gradients]
    for each, (tensor, _) in zip(unit.gradients, unit.sent):
        each.show_trained(tensor)
    tensors = [in_agreed_order(tensor, each) for each, (tensor, _) in zip(unit.gradients, unit.sent)]
    call = (unit.name, settings.op, settings.prescale, settings.postscale, settings.process_set)
    if len(tensors) == 1:
        unit.handle = _ops.allreduce(ops.adapter, tensors[0], True, *call)
    else:
        unit.handle = _ops.grouped_allreduce(ops.adapter, tensors, True, *call)
    return False


def _begin_sparse(unit: Unit, settings: Settings) -> bool:
    """A sparse gradient travels by itself. Of a group, an operation that other ranks refuse, or call as well, is sent before:
    afterwards all of them know which of its gradients are sparse."""
    is_news = any([gradient.notice_sparse() for gradient in unit.gradients])
    if len(unit.gradients) > 1:
        unit.asks, unit.sent = True, []
        unit.handle = ops.reducescatter_async(torch.empty(0), unit.name, Sum, settings.process_set)
    else:
        # The factors are those of an average, and cancel out.
        grad = unit.parameter.grad
        unit.handle = ops.sparse_allreduce_async(grad, unit.name, settings.op, settings.process_set)
    return is_news
