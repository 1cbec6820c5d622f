"""A rank of bench.py: `farandole run -np N python bench_rank.py REPORT [--device cpu] [--quick]`.

Measures Farandole and torch.distributed (NCCL on GPUs, Gloo on the host) in turns in the same processes, on the same
tensors. Rank 0 writes REPORT, in JSON: each measurement with the seconds of each round, of both.
"""

import argparse
import json
import statistics
import sys
import time
from typing import Callable, Dict, List, Tuple

import farandole.torch as hvd
import torch
import torch.distributed as dist
from checks import place_for

ROUNDS = 9
QUICK_ROUNDS = 3
# A round of one contender takes this many seconds, once it is known how long a call takes.
ROUND_S = 0.05
# Of a call that takes longer there are few rounds.
SLOW_S = 0.5
Times = Dict[str, List[Tuple[float, float]]]


def wait(device: torch.device) -> None:
    """Until the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], object], calls: int, device: torch.device) -> float:
    """How long a call takes on the slowest rank, where `calls` of them are given one after the other."""
    wait(device)
    hvd.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait(device)
    taken = torch.tensor((time.perf_counter() - start) / calls, dtype=torch.float64)
    return hvd.allreduce(taken, op=hvd.Max, name="seconds").item()


def compare(ours: Callable[[], object], theirs: Callable[[], object], rounds: int, device: torch.device) -> list:
    """Seconds of both in each round. They begin in turns."""
    for call in (ours, theirs):
        seconds_of(call, 1, device)
    took = {call: seconds_of(call, 2, device) for call in (ours, theirs)}
    calls = {call: max(1, min(200, int(ROUND_S / took[call]))) for call in took}
    rounds = min(rounds, QUICK_ROUNDS) if max(took.values()) > SLOW_S else rounds
    pairs = []
    for number in range(rounds):
        order = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        found = {call: seconds_of(call, calls[call], device) for call in order}
        pairs.append((found[ours], found[theirs]))
    return pairs


def allreduces(sizes: List[int], rounds: int, device: torch.device) -> Times:
    """Sums in place, by bytes of float32: one after the other, and each waited for."""
    times: Times = {}
    for size in sizes:
        tensor = torch.zeros(size // 4, device=device)

        def ours(tensor: torch.Tensor = tensor, name: str = f"{size}") -> None:
            hvd.allreduce_(tensor, op=hvd.Sum, name=name)

        def theirs(tensor: torch.Tensor = tensor) -> None:
            dist.all_reduce(tensor)

        times[f"allreduce {size}"] = compare(ours, theirs, rounds, device)
        times[f"awaited {size}"] = compare(
            lambda call=ours: (call(), wait(device)), lambda call=theirs: (call(), wait(device)), rounds, device
        )
        if hvd.rank() == 0:
            print(
                f"{size} bytes: {statistics.median(a / b for a, b in times[f'allreduce {size}']):.2f} of the peer's time"
            )
    return times


def many(rounds: int, device: torch.device) -> Times:
    """200 tensors of 16 KiB, as one batch of gradients is."""
    tensors = [torch.zeros(4096, device=device) for _ in range(200)]

    def ours() -> None:
        hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="many")

    def theirs() -> None:
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    return {"200 tensors of 16384": compare(ours, theirs, rounds, device)}


def make_model(width: int, layers: int) -> torch.nn.Module:
    torch.manual_seed(1)
    parts: List[torch.nn.Module] = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


def training(width: int, layers: int, rounds: int, device: torch.device) -> Times:
    """A step of SGD beside one of DistributedDataParallel."""
    batch = torch.randn(64, width, device=device)
    own = make_model(width, layers).to(device)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(own.parameters(), lr=0.001), named_parameters=own.named_parameters()
    )
    peer = make_model(width, layers).to(device)
    replica = torch.nn.parallel.DistributedDataParallel(peer, gradient_as_bucket_view=True)
    peers_optimizer = torch.optim.SGD(peer.parameters(), lr=0.001)

    def step(model: torch.nn.Module, by: torch.optim.Optimizer) -> None:
        by.zero_grad()
        model(batch).square().mean().backward()
        by.step()

    pairs = compare(lambda: step(own, optimizer), lambda: step(replica, peers_optimizer), rounds, device)
    parameters = sum(parameter.numel() for parameter in own.parameters())
    for one, other in zip(own.parameters(), peer.parameters()):
        # Other numbers of steps were made of both.
        assert one.isfinite().all() and other.isfinite().all()
    return {f"step of {parameters} parameters": pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    hvd.init()
    device = place_for(arguments.device)
    # Rank 0 takes a port that is free, and tells the others.
    own = dist.TCPStore("127.0.0.1", 0, hvd.size(), True, wait_for_workers=False) if hvd.rank() == 0 else None
    port = hvd.broadcast_object(own.port if own else 0)
    store = own or dist.TCPStore("127.0.0.1", port, hvd.size(), False)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", store=store, rank=hvd.rank(), world_size=hvd.size()
    )
    rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    largest = 20 if arguments.quick else 30 if device.type == "cuda" else 26
    times = allreduces([1 << bits for bits in range(2, largest + 1, 2)], rounds, device)
    times.update(many(rounds, device))
    for width, layers in [(128, 4)] if arguments.quick else [(512, 8), (4096, 8)]:
        times.update(training(width, layers, rounds, device))
    if hvd.rank() == 0:
        with open(arguments.report, "w", encoding="utf-8") as report:
            json.dump({"torch": torch.__version__, "times": times}, report)
    dist.destroy_process_group()
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
