"""farandole.torch.elastic.state by Horovod's name."""

from farandole.torch.elastic import (  # noqa: F401
    ModelStateHandler,
    OptimizerStateHandler,
    SamplerStateHandler,
    StateHandler,
    TorchState,
    get_handler_registry,
    set_handler_registry,
)
