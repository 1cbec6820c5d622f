"""What must hold of tensors in GPUs, on each rank of a job: `farandole run -np N python checks.py CHECK [--device cpu]`.

`operations`: every operation beside what it must give. `training`: DistributedOptimizer beside one process. `compiled`:
the same with torch.compile. `compressed`: with gradients in fewer bytes. `graphs`: CUDA graphs beside collectives, and with them. `death`: a rank is killed while collectives are on their way; the others are told. `elastic`:
a rank is killed, and the job goes on in a new epoch. Ranks share a GPU where there are fewer.
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

DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
ELEMENTS = 1000
# Of products of matrices that take a while.
WIDTHS = {"cuda": 4096, "cpu": 512}


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


def equal(found: torch.Tensor, wanted: List[float], what: str, tolerance: float = 0.0) -> None:
    """AssertionError: they are not."""
    values = found.to("cpu", torch.float64).flatten()
    # Floats of 8 bits do not have all whole numbers.
    rounded = torch.tensor(wanted, dtype=torch.float64).to(found.dtype).to(torch.float64)
    close = values.shape == rounded.shape and torch.allclose(values, rounded, rtol=tolerance, atol=0.0)
    assert close, f"{what}: {values.tolist()[:8]}... is not {wanted[:8]}..."


def reductions(device: torch.device, dtype: torch.dtype) -> None:
    """Of one element type."""
    size = hvd.size()
    ranks = range(1, size + 1)
    average = sum(ranks) / size
    # Of the first three only, whose product every type has.
    wanted = {
        hvd.Sum: float(sum(ranks)),
        hvd.Min: 1.0,
        hvd.Max: float(size),
        hvd.Product: [1.0, 2.0, 6.0][min(size, 3) - 1],
    }
    wanted[hvd.Average] = average if dtype.is_floating_point else float(int(average))
    for op, value in wanted.items():
        # NCCL multiplies by 1 / size in the type itself.
        tolerance = 0.01 if op == hvd.Average and dtype.is_floating_point else 0.0
        if dtype.itemsize == 1 and dtype.is_floating_point:
            if op == hvd.Average:
                continue  # through the host: tests/python has it
            # NCCL rounds sums at each step, which shows with these.
            tolerance = size * torch.finfo(dtype).eps
        own = 1 if op == hvd.Product and hvd.rank() > 2 else hvd.rank() + 1
        tensor = torch.full((ELEMENTS,), own, dtype=dtype, device=device)
        found = hvd.allreduce(tensor, op=op, name=f"{dtype}.{op}")
        assert found.device == device and found.dtype == dtype
        equal(found, [value] * ELEMENTS, f"allreduce of {dtype}, op {op}", tolerance)
        rows = torch.full((2 * size + 1, 3), own, dtype=dtype, device=device)
        share = hvd.reducescatter(rows, op=op, name=f"{dtype}.{op}.rows")
        equal(share, [value] * 3 * (3 if hvd.rank() == 0 else 2), f"reducescatter of {dtype}, op {op}", tolerance)
    if dtype in (torch.float32, torch.float64):
        scaled = hvd.allreduce(
            torch.full((3,), hvd.rank() + 1, dtype=dtype, device=device),
            op=hvd.Sum,
            prescale_factor=0.5,
            postscale_factor=4.0,
        )
        equal(scaled, [2.0 * sum(ranks)] * 3, "allreduce with factors")


def factors(device: torch.device, dtype: torch.dtype) -> None:
    """Of one element type, with every reduction, beside the result of tensors on the host."""
    random = torch.Generator().manual_seed(hvd.rank())
    rows = torch.randint(1, 3, (hvd.size() * 3, 7), generator=random).to(dtype)
    # Sums are added up, and halves rounded, in an order of NCCL's own; min and max round nothing.
    tolerance = 0.0 if not dtype.is_floating_point else 0.02 if dtype.itemsize == 2 else 1e-5
    for op in (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product):
        for number, (before, after) in enumerate(((-1.5, 1.0), (0.75, -0.5), (1.0, 3.0), (1e-7, 1.0))):
            if op == hvd.Product and abs(before) < 1e-3:
                continue  # of many ranks it is less than a float has
            scales = {"prescale_factor": before, "postscale_factor": after}
            exact = op in (hvd.Min, hvd.Max)
            for call in (hvd.allreduce, hvd.reducescatter):
                name = f"{call.__name__}.{dtype}.{op}.{number}"
                wanted = call(rows, op=op, name=f"host.{name}", **scales)
                found = call(rows.to(device), op=op, name=name, **scales)
                assert found.device == device and found.dtype == dtype
                equal(found, wanted.double().flatten().tolist(), f"{name}, {scales}", 0.0 if exact else tolerance)


def many_tensors(device: torch.device) -> None:
    """Hundreds in a batch, of odd sizes, some of which begin in the midst of a word."""
    for dtype in (torch.uint8, torch.float16, torch.float32, torch.int64):
        sizes = [index * 37 % 1009 for index in range(300)] + [1_000_003]
        tensors = [
            torch.full((size + 1,), (hvd.rank() + index) % 5, dtype=dtype, device=device)[index % 2 :]
            for index, size in enumerate(sizes)
        ]
        found = hvd.grouped_allreduce(tensors, op=hvd.Sum, name=f"many.{dtype}")
        for index, tensor in enumerate(found):
            total = sum((rank + index) % 5 for rank in range(hvd.size()))
            assert torch.equal(tensor, torch.full_like(tensors[index], total)), f"tensor {index} of {dtype}"


def movements(device: torch.device, dtype: torch.dtype) -> None:
    """Of one element type."""
    size, rank = hvd.size(), hvd.rank()
    sent = torch.full((ELEMENTS,), rank, dtype=dtype, device=device)
    equal(hvd.broadcast(sent, size - 1, name=f"{dtype}"), [float(size - 1)] * ELEMENTS, f"broadcast of {dtype}")
    rows = hvd.allgather(torch.full((rank, 2), rank, dtype=dtype, device=device), name=f"{dtype}")
    equal(rows, [float(r) for r in range(size) for _ in range(2 * r)], f"allgather of {dtype}")
    own = torch.arange(size * (size + 1) // 2, device=device).to(dtype)
    received, counts = hvd.alltoall(own, list(range(1, size + 1)), name=f"{dtype}")
    begin = rank * (rank + 1) // 2
    equal(received, [float(begin + i) for _ in range(size) for i in range(rank + 1)], f"alltoall of {dtype}")
    assert counts.tolist() == [rank + 1] * size, counts


def late_tensors(device: torch.device) -> None:
    """They come to be in the stream long after the call, and what follows the call finds its result."""
    streams = [torch.cuda.Stream(device), torch.cuda.current_stream(device)] if device.type == "cuda" else [None]
    for stream in streams:
        with torch.cuda.stream(stream):
            matrix = torch.eye(WIDTHS[device.type], device=device)
            for _ in range(20):
                matrix = matrix @ torch.eye(WIDTHS[device.type], device=device)
            handles = [
                hvd.allreduce_async(matrix[i : i + 8] * (hvd.rank() + 1), op=hvd.Sum, name=f"late.{i}")
                for i in range(0, 400, 8)
            ]
            total = sum(float(hvd.synchronize(handle).sum()) for handle in handles)
        assert total == 400 * hvd.size() * (hvd.size() + 1) / 2, total


def sets_and_groups(device: torch.device) -> None:
    """Process sets, grouped calls, and a rank that has joined."""
    own = torch.full((5,), float(hvd.rank()), device=device)
    last = hvd.size() - 1
    ends = hvd.add_process_set([0, last] if last > 1 else [last]) if last > 0 else hvd.global_process_set
    if ends.included():
        equal(hvd.allreduce(own, op=hvd.Max, process_set=ends), [float(last)] * 5, "a process set")
    found = hvd.grouped_allreduce([own, own + 1, own.half()], op=hvd.Sum, name="group")
    total = hvd.size() * (hvd.size() - 1) / 2
    for tensor, value in zip(found, [total, total + hvd.size(), total]):
        equal(tensor, [value] * 5, "grouped_allreduce")
    if hvd.rank() > 0:
        equal(hvd.allreduce(own, op=hvd.Sum, name="after.one.has.joined"), [total] * 5, "beside one that has joined")
    hvd.join()


def batch_norm(device: torch.device) -> None:
    """SyncBatchNorm of a share of the batch, which may be empty, is BatchNorm of all of it."""
    counts = [0 if rank == 0 and hvd.size() > 1 else 3 * rank + 4 for rank in range(hvd.size())]
    own = slice(sum(counts[: hvd.rank()]), sum(counts[: hvd.rank() + 1]))
    random = torch.Generator().manual_seed(3)
    for dtype, order, momentum, close in (
        (torch.float32, torch.contiguous_format, 0.1, 1e-4),
        (torch.float32, torch.channels_last, None, 1e-4),
        (torch.float16, torch.channels_last, 0.1, 1e-2),
        (torch.bfloat16, torch.contiguous_format, None, 5e-2),
        (torch.float64, torch.contiguous_format, 0.1, 1e-9),
    ):
        kind = torch.promote_types(dtype, torch.float32)
        batch = torch.randn(sum(counts), 3, 5, 5, generator=random, dtype=torch.float64).to(dtype)
        layers = [each(3, momentum=momentum).to(device, kind) for each in (hvd.SyncBatchNorm, torch.nn.BatchNorm2d)]
        share = batch[own].to(device).contiguous(memory_format=order).requires_grad_()
        whole = batch.to(device, kind).requires_grad_()
        found, wanted = layers[0](share), layers[1](whole)
        for output in (found, wanted):
            output.to(kind).pow(3).sum().backward()
        for mine, all_of_it in ((found, wanted), (share.grad, whole.grad)):
            torch.testing.assert_close(mine, all_of_it[own].to(dtype), rtol=close, atol=close)
        for mine, all_of_it in zip(layers[0].parameters(), layers[1].parameters()):
            total = hvd.allreduce(mine.grad, op=hvd.Sum)
            torch.testing.assert_close(total, all_of_it.grad, rtol=close, atol=close * sum(counts))
        for mine, all_of_it in zip(layers[0].buffers(), layers[1].buffers()):
            torch.testing.assert_close(mine, all_of_it, rtol=close, atol=close)


def beside_graphs(device: torch.device) -> None:
    """What is before and after a collective may be a CUDA graph; the first of a process set is not captured."""
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


def operations(device: torch.device) -> None:
    """All of them."""
    for dtype in DTYPES:
        reductions(device, dtype)
        if not (dtype.is_floating_point and dtype.itemsize == 1):  # those go through the host
            factors(device, dtype)
        movements(device, dtype)
    many_tensors(device)
    late_tensors(device)
    batch_norm(device)
    sets_and_groups(device)


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
    """The last rank is killed; the others hear of it, however much they have enqueued."""
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
