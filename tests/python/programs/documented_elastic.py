"""An elastic program as Horovod's public documentation tells to write it (docs/elastic.rst and the sampler of its
ImageNet example), with only the import changed.

    farandole run -np 2 --min-np 1 --max-np 3 python documented_elastic.py
"""

import sys

import farandole.torch as hvd
import torch
import torch.nn.functional as F
import torch.optim as optim

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
batch_size = 8
batches_per_commit = 5
lr = 0.001

hvd.init()
torch.manual_seed(1 + hvd.rank())

dataset = torch.utils.data.TensorDataset(torch.randn(400, 10), torch.randint(0, 5, (400,)))
train_sampler = hvd.elastic.ElasticSampler(dataset)
train_loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, sampler=train_sampler)

model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 5))
optimizer = optim.SGD(model.parameters(), lr=lr * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def on_state_reset():
    # adjust learning rate on reset
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr * hvd.size()


@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, epochs):  # noqa: B020
        batch_offset = state.batch
        for batch_idx, (data, target) in enumerate(train_loader):
            state.batch = batch_offset + batch_idx
            if state.batch % batches_per_commit == 0:
                state.commit()
            optimizer.zero_grad()
            output = F.log_softmax(model(data), dim=1)
            loss = F.nll_loss(output, target)
            loss.backward()
            optimizer.step()
            state.train_sampler.record_batch(batch_idx, batch_size)
        print(f"epoch {state.epoch} of rank {hvd.rank()} with {hvd.size()} ranks", flush=True)
        state.batch = 0
        state.train_sampler.set_epoch(state.epoch + 1)
        state.commit()


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, train_sampler=train_sampler, epoch=0, batch=0)
state.register_reset_callbacks([on_state_reset])
train(state)

weights = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None], name="weights")
assert torch.equal(weights, weights[:1].expand_as(weights)), "ranks differ"
assert optimizer.param_groups[0]["lr"] == lr * hvd.size()
print(f"done with {hvd.size()} ranks", flush=True)
