"""Operations on tensors: what differs from NumPy, autograd and compression."""

import os

import farandole.torch as hvd
import torch
from farandole._library import ffi, lib
from harness import Checks, expect_error, rounds_once

check = Checks()

DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def total() -> int:
    """Sum over ranks of rank + 1."""
    return hvd.size() * (hvd.size() + 1) // 2


def mine(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, hvd.rank() + 1, dtype=dtype)


@check.each(*DTYPES)
def all_operations_take_the_element_type(dtype: torch.dtype) -> None:
    for shape in ((4, 3), (), (0,), (5000,)):
        tensor = mine(*shape, dtype=dtype)
        found = hvd.allreduce(tensor, op=hvd.Sum, name=f"{dtype}.{shape}")
        assert found.dtype == dtype and found.shape == tensor.shape and (found == total()).all()
        assert (tensor == hvd.rank() + 1).all(), "allreduce is not in place"
        assert hvd.allreduce_(tensor, op=hvd.Sum, name=f"{dtype}.{shape}") is tensor and (tensor == total()).all()
        found = hvd.broadcast(mine(*shape, dtype=dtype), root_rank=hvd.size() - 1, name=f"{dtype}.{shape}")
        assert found.dtype == dtype and (found == hvd.size()).all()
    found = hvd.allgather(mine(hvd.rank() + 1, 2, dtype=dtype), name=f"{dtype}")
    assert found.dtype == dtype and found[:, 0].tolist() == [r + 1 for r in range(hvd.size()) for _ in range(r + 1)]
    found, received = hvd.alltoall(mine(2 * hvd.size(), 2, dtype=dtype), [2] * hvd.size(), name=f"{dtype}")
    assert found.dtype == dtype and found[::2, 1].tolist() == list(range(1, hvd.size() + 1))
    assert received.dtype == torch.int32 and received.tolist() == [2] * hvd.size()


@check.each(torch.float8_e4m3fn, torch.float8_e5m2)
def floats_of_8_bits_are_moved_and_reduced(dtype: torch.dtype) -> None:
    size, rank = hvd.size(), hvd.rank()
    # Every code; NaNs keep theirs.
    codes = torch.arange(256, dtype=torch.uint8)
    found = hvd.broadcast(codes.view(dtype), root_rank=size - 1, name=f"{dtype}")
    assert found.dtype == dtype and torch.equal(found.view(torch.uint8), codes)
    rows = hvd.allgather(codes[: rank + 1].view(dtype), name=f"{dtype}").view(torch.uint8)
    assert rows.tolist() == [code for other in range(size) for code in range(other + 1)]
    received = hvd.alltoall(codes[:size].view(dtype), name=f"{dtype}")
    assert received.view(torch.uint8).tolist() == [rank] * size
    parts = [
        torch.randn(1000, 3, generator=torch.Generator().manual_seed(other)).to(dtype).float() for other in range(size)
    ]
    own = parts[rank].to(dtype)
    stacked = torch.stack(parts)
    calls = {
        "sum": ({"op": hvd.Sum}, stacked.sum(0)),
        "average": ({"op": hvd.Average}, stacked.sum(0) / size),
        "minimum": ({"op": hvd.Min}, stacked.amin(0)),
        "maximum": ({"op": hvd.Max}, stacked.amax(0)),
        "product": ({"op": hvd.Product}, stacked.prod(0)),
        "postscaled": ({"op": hvd.Sum, "postscale_factor": 4.0}, stacked.sum(0) * 4),
        "prescaled": ({"op": hvd.Sum, "prescale_factor": 0.5}, stacked.sum(0) / 2),
    }
    for name, (arguments, exact) in calls.items():
        found = hvd.allreduce(own, name=f"{dtype}.{name}", **arguments)
        assert found.dtype == dtype and found.is_cuda == own.is_cuda
        # Halving rounds where a value is subnormal, and so do the sums of several hosts.
        is_once = name in ("minimum", "maximum") or (rounds_once() and name != "prescaled")
        limit = 0.0 if is_once else torch.finfo(dtype).eps * (size + 1) * arguments.get("postscale_factor", 1.0)
        assert torch.allclose(found.float(), exact.to(dtype).float(), rtol=limit, atol=limit), name
        share = hvd.reducescatter(own, name=f"{dtype}.{name}", **arguments)
        begin = sum(1000 // size + (other < 1000 % size) for other in range(rank))
        assert torch.allclose(share.float(), found[begin : begin + len(share)].float(), rtol=limit, atol=limit), name
    in_place = own.clone()
    assert hvd.allreduce_(in_place, op=hvd.Sum, name=f"{dtype}.sum") is in_place
    grouped = hvd.grouped_allreduce([own, mine(3)], op=hvd.Sum, name=f"{dtype}.grouped")
    assert torch.equal(in_place.view(torch.uint8), grouped[0].view(torch.uint8)) and (grouped[1] == total()).all()


@check
def bool_is_or_and_and() -> None:
    tensor = torch.tensor([hvd.rank() == 0, True, False])
    assert hvd.allreduce(tensor, op=hvd.Max, name="bool").tolist() == [True, True, False]
    assert hvd.allreduce(tensor, op=hvd.Min, name="bool").tolist() == [hvd.size() == 1, True, False]
    assert hvd.allgather(tensor, name="bool").shape == (3 * hvd.size(),)
    own = torch.tensor([hvd.rank() == 0] * hvd.size())
    assert hvd.alltoall(own, name="bool").tolist() == [True] + [False] * (hvd.size() - 1)


@check
def results_are_equal_to_the_bit_on_all_ranks() -> None:
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64):
        torch.manual_seed(hvd.rank())
        for count in (1, 11, 4097, 200_003):
            found = hvd.allreduce(torch.randn(count).to(dtype), name=f"bits.{dtype}")
            everyones = hvd.allgather(found.view(1, -1), name=f"bits.{dtype}").view(torch.uint8)
            assert all(torch.equal(row, found.view(torch.uint8)) for row in everyones)


@check
def low_precision_sums_round_once() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        parts = [
            torch.randn(1000, generator=torch.Generator().manual_seed(rank)).to(dtype) for rank in range(hvd.size())
        ]
        wanted = sum(part.float() for part in parts).to(dtype)
        found = hvd.allreduce(parts[hvd.rank()], op=hvd.Sum, name=f"once.{dtype}")
        limit = 0 if rounds_once() else 4 * hvd.size() * torch.finfo(dtype).eps
        assert torch.allclose(found, wanted, rtol=0, atol=limit)


@check
def strides_do_not_matter() -> None:
    transposed = mine(4, 6).t()
    assert hvd.allreduce_(transposed, op=hvd.Sum) is transposed and (transposed == total()).all()
    sliced = torch.zeros(10, 10)
    sliced[::2, ::5] = hvd.rank() + 1
    assert (hvd.allreduce(sliced[::2, ::5], op=hvd.Sum) == total()).all()
    hvd.broadcast_(sliced[::2, ::5], root_rank=0)
    assert sliced[0, 0] == 1 and sliced[0, 1] == 0
    images = mine(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert (hvd.allreduce_(images, op=hvd.Sum) == total()).all()
    expanded = mine(1).expand(7)
    assert (hvd.allreduce(expanded, op=hvd.Sum) == total()).all()
    assert hvd.allgather(mine(2, 3).t(), name="t").shape == (3 * hvd.size(), 2)
    assert hvd.alltoall(mine(2, hvd.size()).t(), name="t")[:, 1].tolist() == list(range(1, hvd.size() + 1))


@check
def parameters_can_be_reduced_in_place() -> None:
    parameter = torch.nn.Parameter(mine(3))
    assert hvd.allreduce_(parameter, op=hvd.Sum) is parameter and parameter.tolist() == [total()] * 3
    hvd.broadcast_(parameter, 0)
    column = torch.nn.Parameter(mine(4, 3).t())
    hvd.allreduce_(column, op=hvd.Sum)
    assert column.is_leaf and (column == total()).all()


@check
def grouped_forms_take_mixed_element_types() -> None:
    def tensors() -> list:
        return [mine(3), mine(2, dtype=torch.int64), mine(4, 5).t(), mine(dtype=torch.bfloat16)]

    for found in (
        hvd.grouped_allreduce(tensors(), op=hvd.Sum, name="g"),
        hvd.grouped_allreduce(tensors(), op=hvd.Sum),
        hvd.synchronize(hvd.grouped_allreduce_async(tensors(), op=hvd.Sum, name="g")),
    ):
        assert [t.dtype for t in found] == [t.dtype for t in tensors()] and all((t == total()).all() for t in found)
    given = tensors()
    found = hvd.grouped_allreduce_(given, op=hvd.Sum, name="g")
    assert all(a is b and (a == total()).all() for a, b in zip(given, found))


@check.each(*((count, way) for count in (2, 4096, 1 << 18) for way in ("now", "later")))
def a_group_in_place_reduces_memory_that_tensors_share_once(count: int, way: str) -> None:
    """Each result is that of a copy."""
    whole = mine(count, 2)
    shares = {
        "the same tensor": [whole, whole],
        "the same memory": [whole.view(-1), mine(3), whole.detach()],
        "an overlap": [whole[1:], whole[:-1], whole[: count // 2 + 1]],
        "other strides": [whole.t(), whole, whole[:, 1]],
    }
    for what, tensors in shares.items():
        whole.fill_(hvd.rank() + 1)
        if way == "now":
            found = hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="shared")
        else:
            found = hvd.synchronize(hvd.grouped_allreduce_async_(tensors, op=hvd.Sum, name="shared"))
        assert all(each is tensor for each, tensor in zip(found, tensors)), what
        assert all((tensor == total()).all() for tensor in tensors), what


@check
def async_forms_overlap() -> None:
    handles = [hvd.allreduce_async_(mine(1000), op=hvd.Sum, name=f"a{i}") for i in range(50)]
    handles += [hvd.broadcast_async(mine(10), 0, name=f"b{i}") for i in range(5)]
    handles += [hvd.allgather_async(mine(1), name=f"c{i}") for i in range(5)]
    assert all((hvd.synchronize(handle) == total()).all() for handle in handles[:50])
    assert all((hvd.synchronize(handle) == 1).all() for handle in handles[50:55])
    assert all(len(hvd.synchronize(handle)) == hvd.size() for handle in handles[55:])
    assert all(hvd.poll(handle) for handle in handles)


@check
def compression_keeps_the_element_type() -> None:
    for compression, travels in ((hvd.Compression.fp16, torch.float16), (hvd.Compression.bf16, torch.bfloat16)):
        tensor = torch.randn(500, generator=torch.Generator().manual_seed(hvd.rank()))
        found = hvd.allreduce(tensor, compression=compression, op=hvd.Sum, name=f"{travels}")
        wanted = hvd.allreduce(tensor.to(travels), op=hvd.Sum, name=f"{travels}.plain").float()
        assert found.dtype == torch.float32 and torch.equal(found, wanted)
        assert hvd.allreduce(mine(2, dtype=torch.int32), compression=compression, op=hvd.Sum).dtype == torch.int32


@check
def gradients_flow_through_allreduce() -> None:
    x = mine(4).requires_grad_()
    (hvd.allreduce(x, op=hvd.Sum, name="x") * (hvd.rank() + 1)).sum().backward()
    assert (x.grad == total()).all(), x.grad
    x = mine(4).requires_grad_()
    (hvd.allreduce(x, op=hvd.Average, prescale_factor=2.0) * (hvd.rank() + 1)).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 2.0 * total() / hvd.size()))
    x, y = mine(4).requires_grad_(), mine(2, dtype=torch.float64).requires_grad_()
    a, b = hvd.grouped_allreduce([x, y], op=hvd.Sum, name="g")
    (a.sum() + 3 * b.sum()).backward()
    assert (x.grad == hvd.size()).all() and (y.grad == 3 * hvd.size()).all()
    expect_error(NotImplementedError, lambda: hvd.allreduce(x, op=hvd.Max).sum().backward(), "Max")
    x.grad = None
    hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.bf16).sum().backward()
    assert (x.grad == hvd.size()).all()


@check
def gradients_flow_through_allgather_and_broadcast() -> None:
    x = mine(hvd.rank() + 1, 2).requires_grad_()
    gathered = hvd.allgather(x, name="x")
    weights = torch.arange(float(gathered.numel())).reshape(gathered.shape)
    (gathered * weights).sum().backward()
    begin = sum(range(1, hvd.rank() + 1))
    # The average of equal gradients: NCCL multiplies each by 1 / size.
    torch.testing.assert_close(x.grad, weights[begin : begin + hvd.rank() + 1])
    scalar = torch.tensor(1.0, requires_grad=True)
    hvd.allgather(scalar).sum().backward()
    assert scalar.grad.shape == ()
    torch.testing.assert_close(scalar.grad, torch.tensor(1.0))
    x = mine(3).requires_grad_()
    (hvd.broadcast(x, root_rank=0, name="x") * (hvd.rank() + 1)).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), total() / hvd.size() if hvd.rank() == 0 else 0.0))


@check
def ranks_may_differ_in_wanting_a_gradient() -> None:
    x = mine(hvd.size()).requires_grad_(hvd.rank() == 0)
    assert hvd.reducescatter(x, name="scatter", op=hvd.Sum) == total()
    assert (hvd.allreduce(x, name="x", op=hvd.Sum) == total()).all()
    assert hvd.allgather(x, name="gather").numel() == hvd.size() ** 2
    assert (hvd.broadcast(x, 0, name="cast") == 1).all()


@check
def ranks_may_differ_in_which_tensors_of_a_group_want_a_gradient() -> None:
    for count in (1, 3):
        # The last rank wants none; each other one wants one of another tensor.
        wanted = hvd.rank() % count if hvd.rank() < hvd.size() - 1 else count
        tensors = [mine(hvd.size()).requires_grad_(i == wanted) for i in range(count)]
        for gathered in hvd.grouped_allgather(tensors, name="gathers"):
            assert gathered.tolist() == [rank + 1 for rank in range(hvd.size()) for _ in range(hvd.size())]
        for reduced in hvd.grouped_allreduce(tensors, name="reduces", op=hvd.Sum):
            assert (reduced == total()).all()
        for part in hvd.grouped_reducescatter(tensors, name="scatters", op=hvd.Sum):
            assert part.item() == total()
    # Backward goes through the whole group, too.
    tensors = [mine(2).requires_grad_(i == hvd.rank() % 3) for i in range(3)]
    sum(gathered.sum() for gathered in hvd.grouped_allgather(tensors, name="backwards")).backward()
    assert [None if x.grad is None else x.grad.tolist() for x in tensors] == [
        [1.0, 1.0] if i == hvd.rank() % 3 else None for i in range(3)
    ]


@check
def sparse_tensors_are_averaged_and_summed() -> None:
    size, rank = hvd.size(), hvd.rank()
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        tensor = torch.sparse_coo_tensor([[0, rank, 6, 6, 6]], mine(5, 2, dtype=dtype), (7, 2))
        empty = torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0, 2, dtype=dtype), (7, 2))
        for op in (hvd.Sum, hvd.Average):
            found = hvd.synchronize(hvd.sparse_allreduce_async(tensor, f"{dtype}", op)).to_dense()
            wanted = hvd.allreduce(tensor.to_dense(), op=op)
            assert found.dtype == dtype
            assert torch.allclose(found.double(), wanted.double(), rtol=2e-2 if dtype.is_floating_point else 0, atol=0)
        only = tensor if rank == 0 else empty
        handle = hvd.sparse_allreduce_async(only, name="only", op=hvd.Sum)
        assert torch.equal(handle().to_dense()[0], torch.full((2,), 2, dtype=dtype))
    expect_error(ValueError, lambda: hvd.sparse_allreduce_async(torch.ones(2), "dense", hvd.Sum), "strided")
    expect_error(ValueError, lambda: hvd.sparse_allreduce_async(torch.eye(2).to_sparse(), "max", hvd.Max), "Max")
    truths = torch.sparse_coo_tensor([[1]], [True], (3,))
    assert hvd.sparse_allreduce_async(truths, "truths", hvd.Sum)().to_dense().tolist() == [False, True, False]
    expect_error(ValueError, lambda: hvd.sparse_allreduce_async(truths, "truths"), "average of bool")
    if size > 1:
        odd = torch.sparse_coo_tensor([[0]], [1.0], (8 if rank == size - 1 else 7,))
        handle = hvd.sparse_allreduce_async(odd, "odd", hvd.Sum)
        expect_error(ValueError, handle.synchronize, "odd", "rank 0", "[7]", f"rank {size - 1}", "[8]")


@check
def gradients_flow_back_through_alltoall() -> None:
    size, rank = hvd.size(), hvd.rank()
    x = mine(2 * size + 1, 3).requires_grad_()
    splits = torch.tensor([2] * size)
    found, received = hvd.alltoall(x, splits, name="exchange")  # the last row stays
    assert received.dtype == torch.int64 and not received.requires_grad
    (found * (rank + 1)).sum().backward()
    assert x.grad[:, 0].tolist() == [to + 1 for to in range(size) for _ in range(2)] + [0]
    x = mine(size).requires_grad_()
    hvd.alltoall(x).sum().backward()
    assert x.grad.tolist() == [1.0] * size
    x = mine(4 if rank == 0 else 0, 2).requires_grad_()
    found, _ = hvd.alltoall(x, [4 if rank == 0 and to == size - 1 else 0 for to in range(size)])
    (found.sum() * 3).backward()
    assert (x.grad == 3).all() and x.grad.shape == x.shape


@check
def gradients_flow_back_through_gather_and_scatter() -> None:
    size, rank = hvd.size(), hvd.rank()
    root = size - 1
    x = mine(rank + 1, 2).requires_grad_()
    found = hvd.gather(x, root, name="gather")
    assert found.shape == ((size * (size + 1) // 2 if rank == root else 0), 2) and found.requires_grad
    weights = torch.repeat_interleave(torch.arange(1.0, size + 1), torch.arange(1, size + 1))
    (found * weights[: found.shape[0], None]).sum().backward()
    assert torch.equal(x.grad, torch.full((rank + 1, 2), rank + 1.0))
    scalar = torch.tensor(2.0, requires_grad=True)
    (hvd.gather(scalar, 0) * 3).sum().backward()
    assert scalar.grad == 3
    whole = torch.arange((2 * size + 1) * 3.0).reshape(-1, 3) if rank == root else torch.zeros(rank, 3)
    whole.requires_grad_()
    part = hvd.scatter(whole, root, name="scatter")
    wanted = torch.arange((2 * size + 1) * 3.0).reshape(-1, 3).tensor_split(size)[rank]
    assert torch.equal(part.detach(), wanted)
    (part * (rank + 1)).sum().backward()
    factors = [of + 1.0 for of in range(size) for _ in range(2 + (of < 1))]
    assert whole.grad[:, 0].tolist() == (factors if rank == root else [0.0] * rank)


@check
def reducescatter_has_gradients_and_compression() -> None:
    rows = 2 * hvd.size() + 1
    for op in (hvd.Average, hvd.Sum):
        x = mine(rows, 3).requires_grad_()
        part = hvd.reducescatter(x, name="scatter", op=op)
        begin = sum(2 + (rank < 1) for rank in range(hvd.rank()))
        whole = hvd.allreduce(x.detach(), op=op, name="whole")
        torch.testing.assert_close(part.detach(), whole[begin : begin + part.shape[0]])
        part.sum().backward()
        # Horovod's: the gradients of all parts, and of a sum times the number of ranks.
        assert torch.equal(x.grad, torch.full((rows, 3), 1.0 if op == hvd.Average else float(hvd.size())))
    halves = hvd.grouped_reducescatter([mine(rows), mine(1, 2)], compression=hvd.Compression.fp16, op=hvd.Max)
    assert [half.dtype for half in halves] == [torch.float32] * 2
    assert halves[1].shape == (1 if hvd.rank() == 0 else 0, 2)
    parts = [mine(hvd.rank() + 1).requires_grad_(), mine(2, 2)]
    gathered = hvd.grouped_allgather(parts, name="parts")
    assert [part.shape[0] for part in gathered] == [sum(range(1, hvd.size() + 1)), 2 * hvd.size()]
    gathered[0].sum().backward()
    assert torch.equal(parts[0].grad, torch.ones(hvd.rank() + 1))


class OnDevice(torch.Tensor):
    """Of a device without memory; its elements can be copied from it all the same."""

    is_cpu = property(lambda _self: False)
    device = property(lambda _self: torch.device("meta"))

    def data_ptr(self) -> int:
        raise AssertionError("a device's memory cannot be read")


@check
def outputs_are_on_the_device_of_the_inputs() -> None:
    if torch.ones(1).is_cuda:
        return  # all are in the imitated GPU
    tensor = mine(2, 3).as_subclass(OnDevice)
    outputs = [
        hvd.allreduce(tensor),
        hvd.broadcast(tensor, 0),
        hvd.allgather(tensor),
        hvd.reducescatter(tensor),
        hvd.alltoall(mine(hvd.size(), 2).as_subclass(OnDevice)),
        *hvd.grouped_allreduce([tensor, tensor]),
        *hvd.grouped_allgather([tensor, tensor]),
        *hvd.grouped_reducescatter([tensor, tensor]),
    ]
    assert [output.device.type for output in outputs] == ["meta"] * len(outputs)
    assert outputs[2].shape == (2 * hvd.size(), 3)
    # Those in place are copied back; a rank's tensors may lie elsewhere than the others'.
    ours = tensor if hvd.rank() == 0 else mine(2, 3)
    assert hvd.allreduce_(ours, op=hvd.Sum) is ours
    assert torch.equal(ours.as_subclass(torch.Tensor), torch.full((2, 3), float(total())))


@check
def a_default_device_does_not_matter() -> None:
    if torch.ones(1).is_cuda:
        return
    for tensor in (mine(2, 3), mine(2, 3).as_subclass(OnDevice)):
        with torch.device("meta"):
            output = hvd.synchronize(hvd.allreduce_async(tensor, op=hvd.Sum, name="default"))
            rows = hvd.allgather(tensor, name="default")
            hvd.allreduce_(tensor, op=hvd.Sum, name="default")
        assert output.device.type == tensor.device.type and rows.shape == (2 * hvd.size(), 3)
        assert torch.equal(tensor.as_subclass(torch.Tensor), torch.full((2, 3), float(total())))


@check
def what_cannot_be_sent_is_refused_in_a_sentence() -> None:
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(2, device="meta")), "meta", "no elements")
    expect_error(ValueError, lambda: hvd.allreduce(torch.eye(2).to_sparse()), "sparse", "to_dense")
    expect_error(ValueError, lambda: hvd.allreduce_(torch.ones(2, dtype=torch.complex64)), "complex64")
    expect_error(ValueError, lambda: hvd.allreduce([1.0]), "list")
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum), "average")
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(2), op=17), "17")
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(2), name="a\0b"), "NUL")
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones((1,) * 33)), "33")
    expect_error(ValueError, lambda: hvd.broadcast(torch.ones(2), root_rank=hvd.size()), str(hvd.size()))
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(2), process_set=hvd.ProcessSet([0])), "add_process_set")


@check
def introspection_tells_the_truth() -> None:
    assert hvd.is_initialized() and 0 <= hvd.rank() < hvd.size()
    # The harness says which ranks pretend to share a host.
    own_host = int(os.environ.get("FARANDOLE_HOST_ID", "0"))
    hosts = hvd.allgather(torch.tensor([own_host])).tolist()
    here = [rank for rank, host in enumerate(hosts) if host == own_host]
    assert (hvd.local_rank(), hvd.local_size()) == (here.index(hvd.rank()), len(here))
    sizes = [hosts.count(host) for host in sorted(set(hosts))]
    across = [host for host, size in enumerate(sizes) if size > hvd.local_rank()]
    assert (hvd.cross_rank(), hvd.cross_size()) == (across.index(own_host), len(across))
    assert hvd.is_homogeneous() == (len(set(sizes)) == 1)
    assert not (hvd.mpi_built() or hvd.mpi_threads_supported()) and hvd.cuda_built() == (hvd.nccl_built() != 0)
    # By "nccl 2.30.7", if all can.
    transport = ffi.string(lib.farandole_gpu_transport()).decode()
    built = hvd.nccl_built()
    named = f"nccl {built // 10000}.{built // 100 % 100}.{built % 100}"
    assert transport in ("", named), f"{transport!r}, {named!r}"
    assert hvd.global_process_set.size() == hvd.size() and hvd.global_process_set.ranks == list(range(hvd.size()))
