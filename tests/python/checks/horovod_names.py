"""Horovod's names: that they are there, with its arguments and errors, and what else its PyTorch users bring."""

import importlib
import inspect
import json
import pathlib
import shutil
import sys
import tempfile
import threading
import warnings
from typing import Any, List
from unittest import mock

import farandole.torch
import torch
from harness import ROOT, Checks, expect_error

sys.path.insert(0, str(ROOT / "sdk" / "python" / "farandole" / "_dropin"))

import horovod.torch as hvd  # noqa: E402
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader  # noqa: E402

check = Checks()

# Of horovod 0.28.1, what `import horovod.torch as hvd` gives.
TORCH = """allgather allgather_async allgather_object allreduce allreduce_ allreduce_async allreduce_async_ barrier broadcast
broadcast_ broadcast_async broadcast_async_ broadcast_object broadcast_optimizer_state broadcast_parameters ccl_built
cross_rank cross_size cuda_built ddl_built elastic gloo_built gloo_enabled global_process_set grouped_allgather
grouped_allgather_async grouped_allreduce grouped_allreduce_ grouped_allreduce_async grouped_allreduce_async_
grouped_reducescatter grouped_reducescatter_async init is_initialized local_rank local_size mpi_built mpi_enabled
mpi_threads_supported nccl_built poll rank reducescatter reducescatter_async remove_process_set rocm_built shutdown size
synchronize add_process_set Adasum Average Compression DistributedOptimizer HorovodInternalError Max Min ProcessSet Product
Sum SyncBatchNorm alltoall alltoall_async join sparse_allreduce_async check_extension start_timeline stop_timeline""".split()

MODULES = {
    "horovod": "run __version__",
    "horovod.torch": " ".join(TORCH),
    "horovod.torch.mpi_ops": "allreduce allgather broadcast synchronize poll rank size init shutdown Average Sum is_homogeneous "
    "handle_average_backwards_compatibility _handle_map _allgather_async",
    "horovod.torch.functions": "allgather_object broadcast_object broadcast_optimizer_state broadcast_parameters",
    "horovod.torch.optimizer": "DistributedOptimizer",
    "horovod.torch.compression": "Compression Compressor FP16Compressor NoneCompressor",
    "horovod.torch.sync_batch_norm": "SyncBatchNorm",
    "horovod.torch.elastic": "ElasticSampler TorchState run",
    "horovod.torch.elastic.sampler": "ElasticSampler",
    "horovod.torch.elastic.state": "TorchState StateHandler ModelStateHandler OptimizerStateHandler SamplerStateHandler "
    "get_handler_registry set_handler_registry",
    "horovod.common.basics": "HorovodBasics",
    "horovod.common.elastic": "ObjectState State",
    "horovod.common.exceptions": "HorovodInternalError HostsUpdatedInterrupt HorovodVersionMismatchError",
    "horovod.common.process_sets": "ProcessSet add_process_set global_process_set remove_process_set",
    "horovod.common.util": "check_extension env extension_available gpu_available gloo_built is_iterable mpi_built "
    "nccl_built num_rank_is_power_2 split_list is_version_greater_equal_than _cache get_ext_suffix "
    "get_extension_full_path get_average_backwards_compatibility_fun check_installed_version",
    "horovod.data": "AsyncDataLoaderMixin BaseDataLoader",
    "horovod.data.data_loader_base": "AsyncDataLoaderMixin BaseDataLoader",
    "horovod.runner": "run",
    "horovod.runner.util.threads": "in_thread on_event execute_function_multithreaded",
    "horovod.runner.common.service.compute_service": "ComputeClient ComputeService",
    "horovod.runner.common.util.codec": "dumps_base64 loads_base64",
    "horovod.runner.common.util.env": "is_exportable get_env_rank_and_size IGNORE_REGEXES",
    "horovod.runner.common.util.host_hash": "host_hash",
    "horovod.runner.common.util.hosts": "HostInfo SlotInfo INVALID_SLOT_INFO parse_hosts parse_hosts_and_slots parse_host_files "
    "get_host_assignments",
    "horovod.runner.common.util.secret": "make_secret_key compute_digest check_digest",
    "horovod.runner.common.util.timeout": "Timeout TimeoutException",
}

# Arguments in Horovod's order; more may follow.
ARGUMENTS = {
    "init": "comm process_sets",
    "allreduce": "tensor average name compression op prescale_factor postscale_factor process_set",
    "allreduce_": "tensor average name op prescale_factor postscale_factor process_set",
    "allreduce_async": "tensor average name op prescale_factor postscale_factor process_set",
    "grouped_allreduce": "tensors average name compression op prescale_factor postscale_factor process_set",
    "grouped_allreduce_async_": "tensors average name op prescale_factor postscale_factor process_set",
    "allgather": "tensor name process_set",
    "grouped_allgather": "tensors name process_set",
    "broadcast": "tensor root_rank name process_set",
    "broadcast_async_": "tensor root_rank name process_set",
    "reducescatter": "tensor name compression op process_set prescale_factor postscale_factor",
    "reducescatter_async": "tensor name op process_set prescale_factor postscale_factor",
    "grouped_reducescatter": "tensors name compression op process_set prescale_factor postscale_factor",
    "alltoall": "tensor splits name process_set",
    "sparse_allreduce_async": "tensor name op process_set",
    "join": "device",
    "start_timeline": "file_path mark_cycles",
    "barrier": "process_set",
    "broadcast_parameters": "params root_rank",
    "broadcast_optimizer_state": "optimizer root_rank model",
    "broadcast_object": "obj root_rank name process_set",
    "allgather_object": "obj name",
    "DistributedOptimizer": "optimizer named_parameters compression backward_passes_per_step op gradient_predivide_factor "
    "num_groups groups sparse_as_dense process_set",
    "SyncBatchNorm": "num_features eps momentum affine track_running_stats",
}


@check.each(*MODULES)
def every_name_of_horovods_is_there(module: str) -> None:
    found = importlib.import_module(module)
    missing = [name for name in MODULES[module].split() if not hasattr(found, name)]
    assert not missing, f"{module} lacks {missing}"


@check.each(*ARGUMENTS)
def arguments_have_horovods_names_and_order(name: str) -> None:
    wanted = ARGUMENTS[name].split()
    found = [each for each in inspect.signature(getattr(hvd, name)).parameters if each != "self"]
    assert found[: len(wanted)] == wanted, found


@check
def names_are_the_same_objects() -> None:
    from horovod.common.exceptions import HorovodInternalError

    assert HorovodInternalError is farandole.EpochEnded
    assert issubclass(HorovodInternalError, RuntimeError)
    assert hvd.global_process_set is farandole.global_process_set
    assert hvd.gloo_built() and hvd.gloo_enabled() and not hvd.mpi_enabled()


@check
def process_sets_are_listed_by_number() -> None:
    """As Horovod's own tests ask for them, by the name of a module that `import horovod.torch` brings along."""
    ranks = list(range(hvd.size()))
    listed = hvd.mpi_ops._basics._get_process_set_ids_and_ranks
    assert listed() == {0: ranks}
    if hvd.size() > 1:
        process_set = hvd.add_process_set([hvd.size() - 1])
        assert listed() == {0: ranks, process_set.process_set_id: [hvd.size() - 1]}
        hvd.remove_process_set(process_set)
    assert listed() == {0: ranks} and hvd.functions.broadcast_object is hvd.broadcast_object


@check
def a_timeline_tells_what_tensors_waited_for() -> None:
    folder = pathlib.Path(hvd.broadcast_object(tempfile.mkdtemp(), 0))
    hvd.start_timeline(str(folder / "other.json"))
    hvd.start_timeline(str(folder / "t.json"))
    hvd.start_timeline(str(folder / "t.json"), mark_cycles=True)
    for _ in range(3):
        hvd.allreduce(torch.ones(5000), name="large")
        hvd.allreduce(torch.ones(2), name="small")
    hvd.allgather(torch.ones(3, 2), name="rows")
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(2), name="unseen")
    rank = hvd.rank()
    path = folder / ("t.json" if rank == 0 else f"t.rank{rank}.json")
    events = json.loads(path.read_text(encoding="utf-8"))
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"allreduce.large", "allreduce.small", "allgather.rows"} <= set(rows.values()), rows
    assert "allreduce.unseen" not in rows.values()
    seen = [(event["name"], rows.get(event["tid"])) for event in events if event["ph"] == "X"]
    for name in ("NEGOTIATE_ALLREDUCE", "ALLREDUCE"):
        assert seen.count((name, "allreduce.large")) == seen.count((name, "allreduce.small")) == 3, seen
    assert any(event["name"] == "CYCLE_START" for event in events)
    assert all(event["pid"] == rank for event in events)
    expect_error(ValueError, lambda: hvd.start_timeline("/no/such/folder/t.json"), "/no/such/folder")
    hvd.stop_timeline()
    hvd.barrier()
    if rank == 0:
        shutil.rmtree(folder)


@check
def tools_of_its_programs_work() -> None:
    from horovod.common import util

    assert util.split_list([1, 2, 3, 4, 5], 2) == [[1, 2, 3], [4, 5]]
    assert util.num_rank_is_power_2(4) and not util.num_rank_is_power_2(6)
    assert util.extension_available("torch") and not util.extension_available("mxnet")
    expect_error(ImportError, lambda: util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", ""), "horovod.mxnet")
    hvd.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", hvd.__file__, "mpi_lib_v2")
    assert util.is_version_greater_equal_than("2.4.1", "2.4.0")


@check
def tools_of_its_launchers_work() -> None:
    from horovod.common.util import _cache
    from horovod.runner.common.util import codec, hosts, secret, timeout
    from horovod.runner.util import threads

    calls: List[int] = []
    remembered = _cache(lambda number: calls.append(number) or 2 * number)
    assert remembered(3) == remembered(3) == 6 and calls == [3]
    assert codec.loads_base64(codec.dumps_base64({"a": 1})) == {"a": 1}
    key = secret.make_secret_key()
    assert secret.check_digest(key, b"text", secret.compute_digest(key, b"text"))
    assert not secret.check_digest(key, b"other", secret.compute_digest(key, b"text"))
    slots = hosts.get_host_assignments(hosts.parse_hosts("a:2,b:1"), 3)
    assert [(one.hostname, one.rank, one.local_rank, one.cross_rank) for one in slots] == [
        ("a", 0, 0, 0),
        ("a", 1, 1, 0),
        ("b", 2, 0, 1),
    ]
    assert [(one.size, one.local_size, one.cross_size) for one in slots] == [(3, 2, 2), (3, 2, 1), (3, 1, 2)]
    expect_error(ValueError, lambda: hosts.get_host_assignments(hosts.parse_hosts("a:2"), 3), "3", "2")
    over = timeout.Timeout(-1.0, "{activity} took {timeout} s")
    expect_error(timeout.TimeoutException, lambda: over.check_time_out_for("it"), "it took -1.0 s")
    assert threads.execute_function_multithreaded(lambda one, two: one + two, [[1, 2], [3, 4]]) == {0: 3, 1: 7}
    expect_error(RuntimeError, lambda: threads.execute_function_multithreaded(calls.index, [[9]]), "did not complete")
    event, seen = threading.Event(), threading.Event()
    thread = threads.on_event(event, seen.set)
    assert not seen.is_set()
    event.set()
    thread.join()
    assert seen.is_set()


@check
def an_allgather_may_go_into_a_tensor_of_the_program() -> None:
    from horovod.torch import mpi_ops

    output = torch.empty(0)
    handle = mpi_ops._allgather_async(torch.full((2, 3), float(hvd.rank())), output, "into", hvd.global_process_set)
    assert handle in mpi_ops._handle_map
    assert hvd.synchronize(handle) is output and handle not in mpi_ops._handle_map
    assert output[:, 0].tolist() == [float(rank) for rank in range(hvd.size()) for _ in range(2)]
    assert mpi_ops.handle_average_backwards_compatibility(None, None) == hvd.Average
    assert mpi_ops.handle_average_backwards_compatibility(hvd.Sum, None) == hvd.Sum


@check
def a_disagreement_is_the_error_that_programs_for_horovod_expect() -> None:
    if hvd.size() == 1:
        return
    for kind in (RuntimeError, ValueError):
        expect_error(kind, lambda: hvd.allreduce(torch.ones(hvd.rank() + 1), name="wrong"), "rank 0", "rank 1")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@check
def parameters_may_come_without_names() -> None:
    model = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(model.weight, float(hvd.rank() + 5))
    hvd.broadcast_parameters(model.parameters(), root_rank=hvd.size() - 1)
    assert (model.weight == hvd.size() + 4).all()
    expect_error(ValueError, lambda: hvd.broadcast_parameters("weights", 0), "invalid params of type")


class Numbers(BaseDataLoader):
    """Loads 0, 1, 2, ... and fails at `bad`."""

    def __init__(self, count: int, bad: int = -1) -> None:
        self.count, self.bad = count, bad

    def __len__(self) -> int:
        return self.count

    def _iterate(self):
        for number in range(self.count):
            if number == self.bad:
                raise LookupError(f"there is no sample {number}")
            yield number

    def _process_batch(self, batch: int) -> int:
        return 2 * batch


class AsyncNumbers(AsyncDataLoaderMixin, Numbers):
    """Them, read ahead."""


@check.each(0, 1, 64)
def loaders_read_ahead(size: int) -> None:
    loader = AsyncNumbers(async_loader_queue_size=size, count=10)
    assert list(loader) == list(loader) == [2 * number for number in range(10)] and len(loader) == 10
    for number in loader:  # left early: the next pass begins anew
        if number == 4:
            break
    assert next(iter(loader)) == 0
    loader.close_async_loader()
    assert len(list(loader)) == 10
    broken = AsyncNumbers(async_loader_queue_size=size, count=10, bad=3)
    seen = []
    expect_error(LookupError, lambda: seen.extend(broken), "no sample 3")
    loader.close_async_loader()
    broken.close_async_loader()


@check
def operations_stay_within_sets_of_any_size() -> None:
    size, rank = hvd.size(), hvd.rank()
    rows = [list(range(first, size, stride)) for first in range(size) for stride in (1, 2)]
    for ranks in [row for i, row in enumerate(rows) if row not in rows[:i]]:
        within = hvd.add_process_set(ranks) if len(ranks) < size else hvd.global_process_set
        if within.included():
            own = torch.full((len(ranks), 2), float(rank))
            assert hvd.allreduce(own, op=hvd.Sum, process_set=within).unique().tolist() == [sum(ranks)]
            assert hvd.allgather(own[:1], process_set=within)[:, 0].tolist() == ranks
            assert hvd.broadcast(own, ranks[-1], process_set=within).unique().tolist() == [ranks[-1]]
            assert hvd.alltoall(own, process_set=within)[:, 0].tolist() == ranks
            assert hvd.reducescatter(own, op=hvd.Max, process_set=within).tolist() == [[ranks[-1]] * 2]
            hvd.barrier(process_set=within)
        hvd.remove_process_set(within)


@check
def loops_of_ones_own_are_those_of_horovod() -> None:
    """State, its listener and run_fn, as programs and their tests use them without a launcher of elastic jobs."""
    from horovod.common.elastic import HostUpdateResult, ObjectState, notification_manager, run_fn

    calls: List[Any] = []
    state = ObjectState(lambda value: hvd.broadcast_object(value), hvd.rank, step=0)

    def train(state: Any) -> int:
        calls.append(state.step)
        state.step += 1
        if calls.count("reset") == 0:
            raise hvd.HorovodInternalError("a loss")
        if calls.count("reset") == 1:
            notification_manager.handle_hosts_updated(1, HostUpdateResult.removed)
            state.commit()
        return state.step

    assert run_fn(train, lambda: calls.append("reset"))(state) == 2
    assert calls == [0, "reset", 0, "reset", 1], calls
    notification_manager.handle_hosts_updated(2, HostUpdateResult.added)
    state.commit()


@check
def tests_may_put_other_ranks_into_a_sampler() -> None:
    with mock.patch("horovod.torch.elastic.sampler.rank", return_value=1):
        with mock.patch("horovod.torch.elastic.sampler.size", return_value=2):
            sampler = hvd.elastic.ElasticSampler(range(8), shuffle=False)
    assert list(sampler) == [1, 3, 5, 7] and sampler.num_replicas == 2
    with mock.patch("horovod.torch.elastic.state.broadcast_parameters") as sent:
        hvd.elastic.state.ModelStateHandler(torch.nn.Linear(1, 1)).sync()
    assert sent.call_count == 1


@check
def an_optimizer_says_what_it_was_made_with() -> None:
    from horovod.torch.optimizer import _DistributedAdasumOptimizer, _DistributedOptimizer

    for op, kind in ((hvd.Sum, _DistributedOptimizer), (hvd.Adasum, _DistributedAdasumOptimizer)):
        layer = torch.nn.Linear(2, 2)
        made = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), op=op, sparse_as_dense=True)
        assert isinstance(made, kind) and "horovod" in str(type(made)) and made.op == op and made.sparse_as_dense
        assert made.process_set is hvd.global_process_set and made.gradient_predivide_factor == 1.0


@check.each(None, 2, "lists")
def an_optimizer_says_which_gradients_travel_together(groups: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    parameters = list(model.parameters())
    parameters[1].requires_grad_(False)
    groups = [parameters[1:3]] if groups == "lists" else groups
    made = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1), model.named_parameters(), groups=groups)
    assert made._groups is groups and made._num_groups == (2 if groups == 2 else 0)
    first, _, third, fourth = parameters
    wanted = {None: [], 2: [(first,), (third, fourth)]}.get(groups if groups is None or groups == 2 else 0)
    wanted = [(third,), (first,), (fourth,)] if wanted is None else wanted
    if hvd.size() == 1:
        wanted = []
    assert made._p_to_group == {parameter: group for group in wanted for parameter in group}
    assert made._group_counts == {group: 0 for group in wanted}
    watched = [parameter for parameter in parameters if parameter.requires_grad and hvd.size() > 1]
    assert [node.variable for node in made._grad_accs] == watched
    for _ in range(2):
        made.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        if groups is not None:
            assert made._group_counts == {group: 0 for group in wanted}, "all gradients of each are there"
        made.step()
    steps = hvd.DistributedOptimizer(torch.optim.SGD(model[1].parameters(), lr=0.1), op=hvd.Adasum)
    assert steps._should_synchronize and not steps._synchronized and steps.backward_passes_per_step == 1
    assert set(steps._allreduce_delay.values()) == {1}


@check
def average_is_deprecated() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        hvd.allreduce(torch.ones(2), average=False, name="average")
    assert [one.category for one in told] == [DeprecationWarning], told
