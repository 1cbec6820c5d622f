"""Checks of tensors in GPUs, on each rank of a job: `farandole run -np N python checks.py CHECK [--device cpu]`.

`operations`: every operation beside what it must give. `process_sets`: those of some ranks. `splits`: the
same with FARANDOLE_NCCL_SPLIT=1. `training`:
DistributedOptimizer beside one process. `compiled`: the same with torch.compile. `compressed`: with gradients in fewer
bytes. `graphs`: CUDA graphs beside collectives, and with them. `death`: a rank is killed while collectives are on their
way; the others get an error. `elastic`: a rank is killed, and the job goes on in a new epoch. Ranks share a GPU where
there are fewer.
"""

import argparse
import os
import signal
import socket
import sys
from typing import Any, Callable, Dict, List

import farandole.torch as hvd
import torch
from farandole.exceptions import NotReady
from operation_checks import WIDTHS, equal, operations, process_sets


def place_for(kind: str) -> torch.device:
    """This rank's device. Ranks that share one are hosts of their own to NCCL, which refuses them otherwise."""
    if kind == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if count < hvd.local_size():
        os.environ["NCCL_HOSTID"] = f"process{os.getpid()}"
        os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"  # as NCCL 2.30 wants it
    device = torch.device("cuda", hvd.local_rank() % count)
    torch.cuda.set_device(device)
    return device


def beside_graphs(device: torch.device) -> None:
    """Work before and after a collective may be a CUDA graph; the first of a process set is not captured."""
    if device.type != "cuda":
        return
    tensor, graph = torch.zeros(1000, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor += 1
    for step in range(3):
        graph.replay()
        equal(hvd.allreduce(tensor, op=hvd.Sum, name="replayed"), [float((step + 1) * hvd.size())] * 1000, "a graph")
    if hvd.size() < 2:
        return
    sets = [hvd.add_process_set([rank]) for rank in range(hvd.size())]
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            hvd.allreduce_(tensor, name="captured", process_set=sets[hvd.rank()])
    except NotReady as error:
        assert "CUDA graph" in str(error), error
    else:
        raise AssertionError("a communicator was made within a capture")


def captured_collectives(device: torch.device) -> None:
    """They run with their graph, as often as that does."""
    size, rank = hvd.size(), hvd.rank()
    given = torch.zeros(1000, device=device)

    def step_of_all() -> List[torch.Tensor]:
        doubled = given * 2
        summed = hvd.grouped_allreduce([doubled, given], op=hvd.Sum, name="captured.sums")
        rows = hvd.allgather(given[: rank + 1], name="captured.rows")
        sent = hvd.broadcast(given, root_rank=size - 1, name="captured.sent")
        return [summed[0] + 1, summed[1], rows, sent]

    step_of_all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        after, summed, rows, sent = step_of_all()
    for step in range(3):
        given.fill_(rank + step)
        graph.replay()
        total = float(size * (size - 1) / 2 + step * size)
        equal(after, [2 * total + 1] * 1000, "a captured sum")
        equal(summed, [total] * 1000, "a captured sum")
        equal(rows, [float(one + step) for one in range(size) for _ in range(one + 1)], "a captured allgather")
        equal(sent, [float(size - 1 + step)] * 1000, "a captured broadcast")
        equal(hvd.allreduce(given, op=hvd.Sum, name="beside"), [total] * 1000, "a sum beside a graph")


def captured_batch_norm(device: torch.device) -> None:
    """SyncBatchNorm in a graph, for which nothing in it may wait for the GPU, goes on as another one outside."""
    inside, outside = (hvd.SyncBatchNorm(8, momentum=None).to(device) for _ in range(2))
    inputs = torch.zeros(4, 8, 6, 6, device=device, dtype=torch.float16, requires_grad=True)

    def step(layer: torch.nn.Module) -> List[torch.Tensor]:
        output = layer(inputs)
        given = [inputs, *layer.parameters()]
        return [output, *torch.autograd.grad(output.float().pow(3).sum(), given), *layer.buffers()]

    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for layer in (inside, outside, inside, outside):
            step(layer)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(inside)
    for _ in range(3):
        with torch.no_grad():
            inputs.normal_()
        graph.replay()
        for mine, wanted in zip(results, step(outside)):
            torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-4)


def captured_training(device: torch.device) -> None:
    """A whole step of DistributedOptimizer as one graph comes to what one process has."""
    random = torch.Generator().manual_seed(1)
    model = make_model(device, random)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), model.named_parameters()
    )
    inputs = torch.empty(32, 64, device=device)
    targets = torch.empty(32, dtype=torch.long, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    def load() -> None:
        batch = torch.randn(32 * hvd.size(), 64, generator=random)
        own = slice(hvd.rank() * 32, hvd.rank() * 32 + 32)
        inputs.copy_(batch[own])
        targets.copy_(batch.sum(1).remainder(10).long()[own])

    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(5):
            load()
            step()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(15):
        load()
        graph.replay()
    for mine, whole in zip(model.parameters(), train(device, 20, False)):
        torch.testing.assert_close(mine.detach().cpu(), whole, rtol=1e-3, atol=1e-5)


def graphs(device: torch.device) -> None:
    """Of a GPU only."""
    beside_graphs(device)
    if device.type == "cuda":
        captured_collectives(device)
        captured_batch_norm(device)
        captured_training(device)


def make_model(device: torch.device, random: torch.Generator) -> torch.nn.Module:
    """The same on all ranks."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random) * 0.05)
    return model.to(device)


def train(
    device: torch.device, batches: int, shares: bool, compiles: bool = False, compression: Any = hvd.Compression.none
) -> List[torch.Tensor]:
    """The parameters after some steps on made-up data, of which this rank takes its share, or all."""
    random = torch.Generator().manual_seed(1)
    model = make_model(device, random)
    forward = torch.compile(model) if compiles else model
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if shares:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), compression)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for _ in range(batches):
        inputs = torch.randn(32 * hvd.size(), 64, generator=random)
        targets = inputs.sum(1).remainder(10).long()
        own = slice(hvd.rank() * 32, hvd.rank() * 32 + 32) if shares else slice(None)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(inputs[own].to(device)), targets[own].to(device)).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def optimizer_state(device: torch.device) -> None:
    """The root's comes to ranks that have none: tensors on the GPU, and counters, which are not."""
    model = make_model(device, torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if hvd.rank() == 0:
        model(torch.ones(4, 64, device=device)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        average = state["exp_avg"]
        assert average.device == parameter.device and state["step"].item() == 1, state
        assert torch.equal(hvd.broadcast(average, 0, name="average"), average), "ranks differ"


def training(device: torch.device, compiles: bool = False) -> None:
    """All ranks together come to what one has with the whole batch, and to equal bits."""
    optimizer_state(device)
    together, alone = train(device, 20, True, compiles), train(device, 20, False)
    for mine, whole in zip(together, alone):
        torch.testing.assert_close(mine, whole, rtol=1e-3, atol=1e-5)
        assert torch.equal(hvd.broadcast(mine, 0, name="bits"), mine), "ranks differ"


def compressed(device: torch.device) -> None:
    """Gradients in fewer bytes lead nearly to where all of them do, and to equal bits."""
    alone = train(device, 20, False)
    moved = torch.cat([(one - other).flatten() for one, other in zip(alone, train(device, 0, False))]).norm()
    for kind, limit, compression in (
        ("fp16", 0.02, hvd.Compression.fp16),
        ("bf16", 0.1, hvd.Compression.bf16),
        ("int8", 0.1, hvd.Compression.int8(min_elements=0)),
        ("powersgd", 0.7, hvd.Compression.powersgd(rank=8, start_step=2)),
    ):
        together = train(device, 20, True, compression=compression)
        apart = torch.cat([(one - other).flatten() for one, other in zip(alone, together)]).norm()
        assert apart <= limit * moved, f"{kind}: {apart} from where one process comes to, which has moved by {moved}"
        for mine in together:
            assert torch.equal(hvd.broadcast(mine, 0, name="bits"), mine), f"{kind}: ranks differ"


def death(device: torch.device) -> None:
    """The last rank is killed; the others learn of it, however much they have enqueued."""
    tensor = torch.ones(1 << 20, device=device)
    matrix = torch.eye(WIDTHS[device.type], device=device)
    hvd.allreduce_(tensor, name="first")
    if hvd.rank() == hvd.size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            # On a GPU, seconds of it.
            for _ in range(300 if device.type == "cuda" else 1):
                matrix = matrix @ matrix
                hvd.allreduce_(tensor, name="next")
            if device.type == "cuda":
                torch.cuda.synchronize()
    except hvd.HorovodInternalError as error:
        print(f"told: {error}", flush=True)
        os._exit(3)


def compiled(device: torch.device) -> None:
    """As training."""
    training(device, compiles=True)


def elastic(device: torch.device) -> None:
    """The worker with launch index 1 is killed in its seventh step; another one takes its place, and its GPU."""
    # With which it has chosen its GPU.
    place = (socket.gethostname(), hvd.local_rank())
    random = torch.Generator().manual_seed(1)
    model = make_model(device, random)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), model.named_parameters()
    )
    inputs = torch.randn(32, 64, generator=random).to(device)

    all_of_them = int(os.environ["FARANDOLE_SIZE"])

    @hvd.elastic.run
    def go_on(state: hvd.elastic.TorchState) -> None:
        while state.step < 20 or hvd.size() < all_of_them:
            if state.step == 7 and os.environ["FARANDOLE_LAUNCH_INDEX"] == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            state.step += 1
            if state.step % 5 == 0:
                state.commit()

    go_on(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))
    places = hvd.allgather_object(place)
    assert len(set(places)) == len(places), f"workers have one GPU together: {places}"
    for parameter in model.parameters():
        mine = parameter.detach()
        assert torch.equal(hvd.broadcast(mine, 0, name="bits"), mine), "ranks differ"


CHECKS: Dict[str, Callable[[torch.device], None]] = {
    "operations": operations,
    "process_sets": process_sets,
    "splits": process_sets,
    "graphs": graphs,
    "training": training,
    "compiled": compiled,
    "compressed": compressed,
    "death": death,
    "elastic": elastic,
}


def main() -> None:
    """Runs one check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments = parser.parse_args()
    hvd.init()
    device = place_for(arguments.device)
    CHECKS[arguments.check](device)
    if hvd.rank() == 0:
        print(f"{arguments.check}: well on {hvd.size()} ranks, {device}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    sys.exit(main())
