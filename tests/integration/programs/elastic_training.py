"""Counts, by training, how often each sample of a dataset took part, until its test wishes it to stop.

    elastic_training.py DIRECTORY [--batch N]

The model is one weight for each sample, and the loss is minus the sum of the batch's: with a learning rate of 1 and
summed gradients each weight becomes the number of times that its sample was in a step that lasts.
"""

import argparse
import pathlib
from typing import Any

import farandole.torch as hvd
import torch
from torch.utils.data import DataLoader

SAMPLES = 997
STEPS_PER_COMMIT = 4


class Weights(torch.nn.Module):
    """One a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.float64))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return -self.weights[indices].sum()


def train_pass(state: Any, directory: pathlib.Path, batch: int) -> None:
    """The rest of a pass."""
    loader = DataLoader(range(SAMPLES), batch_size=batch, sampler=state.sampler)
    given = len(state.sampler) - state.sampler.padding
    for indices in loader:
        state.optimizer.zero_grad()
        state.model(indices[: max(given, 0)]).backward()
        given -= len(indices)
        state.optimizer.step()
        state.sampler.record_batch(0, batch)
        state.steps += 1
        if state.steps % STEPS_PER_COMMIT == 0:
            state.commit()
        else:
            state.check_host_updates()
        if state.steps % 20 == 0:
            print(f"step {state.steps} of {hvd.size()}", flush=True)
    wish = torch.tensor(hvd.rank() == 0 and (directory / "stop").exists())
    state.stop = hvd.allreduce(wish, op=hvd.Max, name="wish").item()
    state.passes += 1
    state.sampler.set_epoch(state.passes)
    state.commit()


@hvd.elastic.run
def train(state: Any, directory: pathlib.Path, batch: int) -> None:
    print(f"epoch of {hvd.size()} as rank {hvd.rank()} in pass {state.passes}", flush=True)
    while not state.stop:
        train_pass(state, directory, batch)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    model = Weights()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
    sampler = hvd.elastic.ElasticSampler(range(SAMPLES), seed=3)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, passes=0, steps=0, stop=False)
    train(state, arguments.directory, arguments.batch)
    counts = sorted(set(model.weights.tolist()))
    assert counts == [state.passes], f"after {state.passes} passes samples took part {counts} times"
    print(f"done after {state.passes} passes, in an epoch of {hvd.size()}", flush=True)


if __name__ == "__main__":
    main()
