"""Training with PyTorch, with its types."""

from typing import List, assert_type

import farandole.torch as hvd
import torch
from farandole import checkpoint

hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size()),
    named_parameters=model.named_parameters(),
    compression=hvd.Compression.fp16,
    backward_passes_per_step=2,
    op=hvd.Average,
)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

loss: torch.Tensor = model(torch.ones(3, 4)).sum()
loss.backward()
optimizer.synchronize()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
with optimizer.skip_synchronize():
    optimizer.step()
optimizer.zero_grad()

assert_type(hvd.allreduce(loss, name="loss"), torch.Tensor)
assert_type(hvd.allreduce_(loss), torch.Tensor)
assert_type(hvd.allgather(loss), torch.Tensor)
assert_type(hvd.broadcast(loss, root_rank=0), torch.Tensor)
assert_type(hvd.reducescatter(loss), torch.Tensor)
assert_type(hvd.grouped_allreduce([loss]), List[torch.Tensor])
assert_type(hvd.poll(hvd.allreduce_async_(loss)), bool)
hvd.barrier()

state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0)
sampler = hvd.elastic.ElasticSampler(range(100), shuffle=False)
assert_type(len(sampler), int)


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> int:
    """A decorated function keeps its type of result."""
    state.commit()
    return state.epoch  # type: ignore[no-any-return]  # an attribute of the program's own


assert_type(train(state), int)
path = checkpoint.save({"model": model.state_dict()}, "checkpoints", step=1)
if path is not None:
    model.load_state_dict(checkpoint.load(path))
newest = checkpoint.latest("checkpoints")
print(newest and newest.upper(), hvd.__version__)
