"""Elastic training with PyTorch: farandole.elastic, and a state of models, optimizers and samplers.

state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)

@hvd.elastic.run
def train(state): ...
"""

from ...elastic import HostUpdateResult, ObjectState, State, run
from ...exceptions import HostsUpdatedInterrupt
from .sampler import ElasticSampler
from .state import (
    ModelStateHandler,
    OptimizerStateHandler,
    SamplerStateHandler,
    SchedulerStateHandler,
    StateHandler,
    TorchState,
    get_handler_registry,
    set_handler_registry,
)

__all__ = [
    "ElasticSampler",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ModelStateHandler",
    "ObjectState",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "SchedulerStateHandler",
    "State",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "run",
    "set_handler_registry",
]
