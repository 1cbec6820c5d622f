"""Checks of the operations themselves, and of process sets, with tensors in GPUs: those of checks.py."""

from typing import List

import farandole.torch as hvd
import torch

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
    gathered = hvd.gather(torch.full((rank, 2), rank, dtype=dtype, device=device), size - 1, name=f"{dtype}")
    senders = [float(r) for r in range(size) for _ in range(2 * r)] if rank == size - 1 else []
    equal(gathered, senders, f"gather of {dtype}")
    whole = torch.arange(2 * size if rank == 0 else 0, device=device).to(dtype)
    equal(hvd.scatter(whole, 0, name=f"{dtype}"), [2.0 * rank, 2.0 * rank + 1], f"scatter of {dtype}")
    own = torch.arange(size * (size + 1) // 2, device=device).to(dtype)
    received, counts = hvd.alltoall(own, list(range(1, size + 1)), name=f"{dtype}")
    begin = rank * (rank + 1) // 2
    equal(received, [float(begin + i) for _ in range(size) for i in range(rank + 1)], f"alltoall of {dtype}")
    assert counts.tolist() == [rank + 1] * size, counts


def late_tensors(device: torch.device) -> None:
    """They come to be in the stream long after the call, and work behind the call finds its result."""
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


def process_sets(device: torch.device) -> None:
    """Of sets that there are before the first collective of all, of a later one, and of one that is removed."""
    size, rank = hvd.size(), hvd.rank()
    before = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    pairs = [tuple(range(first, min(first + 2, size))) for first in range(0, size, 2)]
    strides = [tuple(range(first, size, 2)) for first in range(min(size, 2))]
    sets = [hvd.add_process_set(list(each)) for each in sorted({*pairs, *strides} - {tuple(range(size))})]
    own = torch.full((ELEMENTS,), float(rank), device=device)
    equal(hvd.allreduce(own, op=hvd.Sum), [size * (size - 1) / 2] * ELEMENTS, "a sum over all")

    def reduce(one: hvd.ProcessSet) -> None:
        if not one.included():
            return
        total = float(sum(one.ranks))
        found = hvd.grouped_allreduce([own, own.half()], op=hvd.Sum, process_set=one)
        found.append(hvd.allreduce(own, op=hvd.Sum, process_set=one))
        for tensor in found:
            equal(tensor, [total] * ELEMENTS, f"a sum over {one.ranks}")
        sent = hvd.broadcast(own, root_rank=one.ranks[-1], process_set=one)
        equal(sent, [float(one.ranks[-1])] * ELEMENTS, f"a broadcast over {one.ranks}")

    for _ in range(3):
        for one in sets:
            reduce(one)
    if sets:
        ranks = sets[0].ranks
        hvd.remove_process_set(sets[0])
        reduce(hvd.add_process_set(ranks))
    if device.type == "cuda":
        taken = (before - torch.cuda.mem_get_info(device)[0]) >> 20
        print(f"rank {rank}: {taken} MiB of the GPU went to all ranks and {len(sets)} process sets", flush=True)
