"""An elastic job of PyTorch whose parameters are known at each step, until its test wishes it to stop, by a file: a pass
that is lost or counts twice is seen in them.

    elastic_gradients.py DIRECTORY OP

Two backward passes go before a step, and a commit between them. The optimizer gets a second group in step LATE; that of a
worker that joins has both from its start.
"""

import os
import pathlib
import sys
from typing import Any

import farandole.torch as hvd
import torch

DIRECTORY, OP = pathlib.Path(sys.argv[1]), getattr(hvd, sys.argv[2])
LATE = 10

hvd.init()
# The late one is the first that has a name.
model = torch.nn.Sequential(torch.nn.Linear(60, 60), torch.nn.Linear(60, 60))
groups = [{"params": list(layer.parameters())} for layer in (model[1], model[0])]
inner = torch.optim.SGD(groups[: 1 if os.environ["FARANDOLE_LAUNCH_INDEX"] == "0" else 2], lr=1.0)
optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), op=OP, backward_passes_per_step=2)
for parameter in model.parameters():
    parameter.data.zero_()


def backward() -> None:
    sum(parameter.sum() for group in optimizer.param_groups for parameter in group["params"]).backward()


def require(step: int) -> None:
    """Fails unless each pass of each step has changed the parameters once."""
    for late, layer in enumerate((model[1], model[0])):
        for parameter in layer.parameters():
            wanted = -2.0 * max(0, step - LATE * late)
            assert (parameter == wanted).all(), f"in step {step}: {parameter.flatten()[:3]}, not {wanted}"


@hvd.elastic.run
def train(state: Any) -> int:
    while not state.stop:
        require(state.step)
        if state.step == LATE and len(optimizer.param_groups) == 1:
            optimizer.add_param_group(groups[1])
        backward()
        state.commit()
        backward()
        optimizer.step()
        optimizer.zero_grad()
        wish = torch.tensor(float(hvd.rank() == 0 and (DIRECTORY / "stop").exists()))
        state.stop = hvd.allreduce(wish, op=hvd.Sum, name="wish").item() > 0
        state.step += 1
        if state.step % 10 == 0:
            print(f"step {state.step} of {hvd.size()}")
    require(state.step)
    return state.step


steps = train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, stop=False))
print(f"done after {steps} steps, in an epoch of {hvd.size()}")
