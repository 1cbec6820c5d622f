"""Trains a small CNN on Fashion-MNIST with several workers.

    .venv/bin/farandole run -np 2 .venv/bin/python examples/fashion_mnist.py
    .venv/bin/python examples/fashion_mnist.py            # the same with one worker

The data is Debian's package dataset-fashion-mnist. Each pass over it ends with a checkpoint; --resume goes on from the
newest.
"""

import argparse
import contextlib
import math
import pathlib
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

import farandole.checkpoint
import farandole.torch as hvd
import torch
from fashion_mnist_data import DATA, read
from torch import nn
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

CHECKPOINT_NAME = "fashion-mnist"
MOMENTUM = 0.9
# A line this often where there is no terminal for a bar, in seconds.
LINE_SECONDS = 5.0
# The first steps teach the coordinator the tensors' names; from then on it should hear nothing.
STEADY_AFTER_STEPS = 10


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a CNN on Fashion-MNIST with farandole.")
    parser.add_argument("--data", default=DATA, help="directory of the four .gz files (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the training data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per worker and step (default: %(default)s)")
    parser.add_argument(
        "--lr",
        type=float,
        default=0.02,
        help="learning rate of one worker; it is scaled by their number (default: %(default)s)",
    )
    parser.add_argument(
        "--warmup-steps",
        type=int,
        default=100,
        help="steps from one worker's learning rate to all workers' (default: %(default)s)",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    parser.add_argument(
        "--checkpoint-dir", default="checkpoints", help="directory of the checkpoints (default: %(default)s)"
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="seed of the first weights and of the order of images (default: %(default)s)",
    )
    return parser.parse_args()


class FashionMnist(Dataset):
    """Whole batches: an item is (images [n, 1, 28, 28] normalized float32, labels [n] int64) for a list of n
    indices."""

    def __init__(self, directory: str, prefix: str) -> None:
        self.images, self.labels = map(torch.from_numpy, read(directory, prefix))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, indices: List[int]) -> Tuple[torch.Tensor, torch.Tensor]:
        images = self.images[indices].unsqueeze(1).float()
        return images.sub_(72.9).div_(90.0), self.labels[indices].long()  # mean and deviation of the training images


def make_loader(dataset: Dataset, batch_size: int, shuffle: bool, seed: int) -> DataLoader:
    """This worker's share of the data, in batches."""
    sampler = DistributedSampler(dataset, hvd.size(), hvd.rank(), shuffle=shuffle, seed=seed)
    return DataLoader(dataset, sampler=BatchSampler(sampler, batch_size, drop_last=shuffle), batch_size=None)


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


class Timing(NamedTuple):
    """Rank 0's measurements over the steps after the first few."""

    seconds: float
    steps: int
    wait_seconds: float
    coordinator_messages: int


class Stopwatch:
    """Measures steps after the first STEADY_AFTER_STEPS. Time between passes does not count."""

    def __init__(self) -> None:
        self._steps = 0
        self._total = Timing(0.0, 0, 0.0, 0)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        before, start = hvd.counters(), time.perf_counter()
        yield
        after, seconds = hvd.counters(), time.perf_counter() - start
        self._steps += 1
        if self._steps > STEADY_AFTER_STEPS:
            self._total = Timing(
                self._total.seconds + seconds,
                self._total.steps + 1,
                self._total.wait_seconds + (after.wait_ns - before.wait_ns) / 1e9,
                self._total.coordinator_messages + after.coordinator_messages - before.coordinator_messages,
            )

    def total(self) -> Timing:
        return self._total


@contextlib.contextmanager
def progress(total: int, shown: bool) -> Iterator[Callable[[str], None]]:
    """A function to call after each step with a short text: a bar on a terminal, else a line every few seconds;
    nothing unless `shown`."""
    if not shown:
        yield lambda text: None
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=total)
            yield lambda text: bar.update(task, advance=1, description=text)
        return
    done, last = 0, time.monotonic()

    def line(text: str) -> None:
        nonlocal done, last
        done += 1
        if time.monotonic() - last > LINE_SECONDS or done == total:
            last = time.monotonic()
            print(f"{text}  step {done}/{total}", flush=True)

    yield line


def train_pass(
    model: nn.Module,
    optimizer: Any,
    schedule: Any,
    loader: DataLoader,
    epoch: int,
    epochs: int,
    shown: bool,
    stopwatch: Stopwatch,
) -> None:
    """One pass over this worker's share of the training data."""
    model.train()
    loader.sampler.sampler.set_epoch(epoch)
    batches = iter(loader)
    with progress(len(loader), shown) as report:
        for _ in range(len(loader)):
            with stopwatch.step():
                images, labels = next(batches)
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                schedule.step()
            report(f"pass {epoch + 1}/{epochs}  loss {loss.item():.3f}")


@torch.no_grad()
def test(model: nn.Module, loader: DataLoader) -> Tuple[float, float]:
    """Loss and accuracy over the test data, each worker looking at its share."""
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64)
    for images, labels in loader:
        scores = model(images)
        correct = (scores.argmax(1) == labels).sum().item()
        sums += torch.tensor([functional.cross_entropy(scores, labels, reduction="sum").item(), correct, len(labels)])
    loss, correct, count = hvd.allreduce(sums, op=hvd.Sum, name="test").tolist()
    return loss / count, correct / count


def resume(directory: str, model: nn.Module, optimizer: Any, schedule: Any) -> int:
    """Loads the newest checkpoint on rank 0. Returns the pass to begin with, on all ranks; 0 where there is none."""
    path = farandole.checkpoint.latest(directory, CHECKPOINT_NAME) if hvd.rank() == 0 else None
    state: Dict[str, Any] = {}
    if path is not None:
        state = farandole.checkpoint.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        print(f"going on from {path}", flush=True)
    passes, schedule_state = hvd.broadcast_object((state.get("passes", 0), state.get("schedule")), root_rank=0)
    if schedule_state is not None:
        schedule.load_state_dict(schedule_state)
    return passes


def warm_up(step: int, steps: int) -> float:
    """The share of all workers' learning rate in a step: from one worker's on, in so many steps."""
    return 1.0 if step >= steps else (1 + (hvd.size() - 1) * step / steps) / hvd.size()


def print_table(rows: List[Tuple[str, str]]) -> None:
    width = max(len(label) for label, _ in rows)
    print("\n" + "\n".join(f"{label:<{width}}  {value}" for label, value in rows), flush=True)


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)  # a core a worker
    torch.manual_seed(arguments.seed)
    train_data, test_data = FashionMnist(arguments.data, "train"), FashionMnist(arguments.data, "t10k")

    hvd.init()
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr * hvd.size(), momentum=MOMENTUM)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    train_loader = make_loader(train_data, arguments.batch_size, shuffle=True, seed=arguments.seed)
    test_loader = make_loader(test_data, 500, shuffle=False, seed=arguments.seed)
    steps = arguments.epochs * len(train_loader)
    # From one worker's rate to all workers' in the first steps, then down to nothing along a cosine.
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: warm_up(step, arguments.warmup_steps) * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1.0))),
    )
    first_pass = resume(arguments.checkpoint_dir, model, optimizer, schedule) if arguments.resume else 0
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    main_rank = hvd.rank() == 0
    stopwatch = Stopwatch()
    path = None
    if main_rank:
        pathlib.Path(arguments.checkpoint_dir).mkdir(parents=True, exist_ok=True)
    for epoch in range(first_pass, arguments.epochs):
        train_pass(
            model,
            optimizer,
            schedule,
            train_loader,
            epoch,
            arguments.epochs,
            main_rank and not arguments.no_progress,
            stopwatch,
        )
        loss, accuracy = test(model, test_loader)
        if main_rank:
            print(
                f"pass {epoch + 1}/{arguments.epochs}: test loss {loss:.3f}, test accuracy {accuracy:.2%}", flush=True
            )
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "passes": epoch + 1,
        }
        path = farandole.checkpoint.save(
            state, arguments.checkpoint_dir, (epoch + 1) * len(train_loader), name=CHECKPOINT_NAME, replace=True
        )

    _, accuracy = test(model, test_loader)
    if main_rank:
        report(accuracy, stopwatch.total(), model, arguments.batch_size, path)
    hvd.shutdown()


def report(accuracy: float, timing: Timing, model: nn.Module, batch_size: int, path: Any) -> None:
    """The table at the end."""
    rows = [("test accuracy", f"{accuracy:.2%}"), ("workers", str(hvd.size()))]
    if timing.steps:
        gradient_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
        rows += [
            ("images/s, all workers", f"{timing.steps * batch_size * hvd.size() / timing.seconds:,.0f}"),
            ("time in communication", f"{timing.wait_seconds / timing.seconds:.1%}"),
            ("coordinator messages per step", f"{timing.coordinator_messages / timing.steps:g}"),
            ("gradient bytes per step", f"{gradient_bytes:,}"),
        ]
    print_table(rows + [("checkpoint", path or "none written: all passes were done before")])


if __name__ == "__main__":
    main()
