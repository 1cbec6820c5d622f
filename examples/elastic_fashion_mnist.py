"""Trains the small CNN of fashion_mnist.py while workers come and go.

    .venv/bin/farandole run -np 2 --min-np 1 --max-np 4 .venv/bin/python examples/elastic_fashion_mnist.py

Kill a worker (kill -9) at any time: the others go on from the last commit, within the same pass over the data, and each
image still counts once a pass.
"""

import argparse
from typing import Any

import farandole.torch as hvd
import torch
from fashion_mnist import DATA, MOMENTUM, FashionMnist, make_loader, make_model, test
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader

STEPS_PER_COMMIT = 10


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a CNN on Fashion-MNIST with workers that come and go.")
    parser.add_argument("--data", default=DATA, help="directory of the four .gz files (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the training data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per worker and step (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate of one worker (default: %(default)s)")
    return parser.parse_args()


@hvd.elastic.run
def train(state: Any, train_data: FashionMnist, test_data: FashionMnist, arguments: argparse.Namespace) -> None:
    """All passes, or the rest of them. It is called again in each new set of workers."""
    if hvd.rank() == 0:
        done = state.sampler.processed_num
        print(f"{hvd.size()} workers, pass {state.passes + 1} from image {done} on", flush=True)
    batches = BatchSampler(state.sampler, arguments.batch_size, drop_last=False)
    loader = DataLoader(train_data, sampler=batches, batch_size=None)
    while state.passes < arguments.epochs:
        state.model.train()
        for step, (images, labels) in enumerate(loader):
            state.optimizer.zero_grad()
            functional.cross_entropy(state.model(images), labels).backward()
            state.optimizer.step()
            state.sampler.record_batch(step, arguments.batch_size)
            if step % STEPS_PER_COMMIT == 0:
                state.commit()
        loss, accuracy = test(state.model, make_loader(test_data, 500, shuffle=False, seed=0))
        state.passes += 1
        state.sampler.set_epoch(state.passes)
        if hvd.rank() == 0:
            print(f"pass {state.passes}/{arguments.epochs}: loss {loss:.3f}, accuracy {accuracy:.2%}", flush=True)
        state.commit()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)  # a core a worker
    train_data, test_data = FashionMnist(arguments.data, "train"), FashionMnist(arguments.data, "t10k")
    hvd.init()
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr * hvd.size(), momentum=MOMENTUM)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(train_data)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, passes=0)

    def scale_learning_rate() -> None:
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * hvd.size()

    state.register_reset_callbacks([scale_learning_rate])
    train(state, train_data, test_data, arguments)


if __name__ == "__main__":
    main()
