"""Trains a multilayer perceptron whose settings only rank 0 knows, and collects what each worker saw.

    .venv/bin/farandole run -np 2 .venv/bin/python examples/torch_mlp_objects.py

broadcast_object sends any Python object from one worker to all, allgather_object from all to all. The task, made up
from a seed: tell from 20 numbers which of 4 hidden directions they lean to most.
"""

import farandole.torch as hvd
import torch
from torch import nn
from torch.nn import functional

FEATURES, CLASSES = 20, 4


def make_task(count: int, seed: int) -> tuple:
    """Features [count, 20] and labels [count]; the directions are the same for every seed."""
    directions = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
    features = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed))
    return features, (features @ directions).argmax(1)


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    settings = {"hidden": [64, 32], "lr": 0.01, "steps": 300, "batch": 64} if hvd.rank() == 0 else None
    settings = hvd.broadcast_object(settings, root_rank=0)

    sizes = [FEATURES, *settings["hidden"], CLASSES]
    layers = [layer for i in range(len(sizes) - 1) for layer in (nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["lr"])
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    features, labels = make_task(4096, seed=1 + hvd.rank())
    for step in range(settings["steps"]):
        begin = step * settings["batch"] % len(labels)
        batch = slice(begin, begin + settings["batch"])
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(features[batch]), labels[batch])
        loss.backward()
        optimizer.step()

    test_features, test_labels = make_task(2048, seed=1000)
    with torch.no_grad():
        accuracy = (model(test_features).argmax(1) == test_labels).float().mean().item()
    reports = hvd.allgather_object({"rank": hvd.rank(), "loss": round(loss.item(), 4), "accuracy": accuracy})
    if hvd.rank() == 0:
        for report in reports:
            print(f"rank {report['rank']}: last loss {report['loss']:.4f}, test accuracy {report['accuracy']:.2%}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
