"""A program that knows Horovod only: one step of training, and its average over all ranks."""

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
loss = model(torch.full((8, 4), float(hvd.rank()))).square().mean()
loss.backward()
optimizer.step()
weights = hvd.allgather(model.weight.detach(), name="weights")
mean = hvd.allreduce(loss.detach(), name="loss")
print(
    f"rank {hvd.rank()} of {hvd.size()}: all weights are equal: {bool((weights == weights[0]).all())}, mean loss {mean:.4f}"
)
