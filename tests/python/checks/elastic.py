"""States of elastic programs, in a job that is not elastic itself: what they save, restore and synchronize."""

import copy
from typing import Any, List

import farandole
import farandole.torch as hvd
import numpy as np
import torch
from harness import Checks

check = Checks()


def make() -> Any:
    """A state whose model and optimizer have taken a step, different on each rank."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (1 + hvd.rank()))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    state = hvd.elastic.TorchState(
        model=model,
        optimizer=hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters()),
        schedule=schedule,
        sampler=hvd.elastic.ElasticSampler(range(100)),
        batch=hvd.rank(),
        seen=[hvd.rank()],
    )
    train(state)
    return state


def train(state: Any) -> None:
    state.optimizer.zero_grad()
    state.model(torch.randn(4, 3)).square().sum().backward()
    state.optimizer.step()
    state.schedule.step()
    state.sampler.record_batch(0, 4)
    state.batch += 1
    state.seen.append(state.batch)


def picture(state: Any) -> Any:
    """All that the state is, as plain values."""

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.tolist()
        if isinstance(value, dict):
            return {str(key): plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value

    parts = (state.model, state.optimizer, state.schedule, state.sampler)
    return copy.deepcopy([plain(part.state_dict()) for part in parts] + [state.batch, state.seen])


@check
def torch_state_goes_back_to_its_last_save_however_often() -> None:
    state = make()
    state.save()
    saved = picture(state)
    for _ in range(2):
        train(state)
        train(state)
        assert picture(state) != saved
        state.restore()
        assert picture(state) == saved
    train(state)
    state.commit()
    assert picture(state) != saved


@check.each("wrapper", "wrapped", "Adasum", "alone")
def a_group_that_was_added_since_the_save_is_taken_away(how: str) -> None:
    """And may be added again. The survivors of a loss go on with the groups of the commit, as newcomers do."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    inner = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
    optimizer: Any = inner
    if how != "alone":
        op = hvd.Adasum if how == "Adasum" else hvd.Average
        optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), op=op)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.full((2, 3), hvd.rank() + 1.0)).square().mean().backward()
        optimizer.step()
        state.step += 1

    def numbers() -> List[float]:
        return [number for parameter in model.parameters() for number in parameter.flatten().tolist()]

    ends = []
    step()
    state.save()
    for _ in range(2):
        step()
        (optimizer if how == "wrapper" else inner).add_param_group({"params": model[1].parameters()})
        step()
        step()
        ends.append(numbers())
        groups = optimizer.param_groups
        state.restore()
        assert state.step == 1 and optimizer.param_groups is inner.param_groups is groups and len(groups) == 1
        assert set(optimizer.state) == set(model[0].parameters())
        assert all(each.grad is None for each in model[1].parameters()), "they would count when it is added again"
    assert ends[0] == ends[1]
    step()
    if how != "alone" and hvd.size() > 1:
        assert optimizer._requires_update == set(model[0].parameters())
        everyone = hvd.allgather_object(numbers())
        assert all(each == everyone[0] for each in everyone), "replicas differ"


@check
def sync_gives_all_ranks_the_root_s_state_and_saves_it() -> None:
    state = make()
    state.sync()
    pictures = hvd.allgather_object(picture(state))
    assert all(each == pictures[0] for each in pictures)
    assert state.batch == 1 and state.seen == [0, 1]
    train(state)
    state.restore()
    assert picture(state) == pictures[0]


@check
def sync_takes_the_most_advanced_rank() -> None:
    state = hvd.elastic.ObjectState(value=np.full(5, hvd.rank()))
    for _ in range(min(hvd.rank(), 1)):
        state.commit()
    state.sync()
    assert state.value.tolist() == [min(1, hvd.size() - 1)] * 5
    state.value += 1
    state.restore()
    assert state.value.tolist() == [min(1, hvd.size() - 1)] * 5


@check
def objects_are_saved_by_value() -> None:
    state = farandole.elastic.ObjectState(weights=np.zeros(3), names=[])
    state.weights += 1
    state.names.append("one")
    state.commit()
    state.weights += 1
    state.names.append("two")
    state.restore()
    assert state.weights.tolist() == [1, 1, 1] and state.names == ["one"]


@check
def attribute_with_a_handler_may_be_set_anew() -> None:
    state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 2))
    other = torch.nn.Linear(2, 2)
    weights = other.weight.tolist()
    state.model = other
    with torch.no_grad():
        other.weight.zero_()
    state.restore()
    assert state.model is other and other.weight.tolist() == weights and state.optimizer is None


@check
def handlers_may_be_added() -> None:
    class Counter:
        count = 0

    class CounterStateHandler(hvd.elastic.StateHandler):
        def save(self) -> None:
            self.saved = self.value.count

        def restore(self) -> None:
            self.value.count = self.saved

        def sync(self) -> None:
            self.value.count = hvd.broadcast_object(self.value.count, self.root_rank)

    before = hvd.elastic.get_handler_registry()
    hvd.elastic.set_handler_registry([(Counter, CounterStateHandler), *before])
    try:
        counter = Counter()
        state = hvd.elastic.TorchState(counter=counter)
        counter.count = 7 + hvd.rank()
        state.sync()
        counter.count += 1
        state.restore()
        assert counter.count == 7 and state.counter is counter
    finally:
        hvd.elastic.set_handler_registry(before)


@check
def name_that_a_state_has_itself_is_refused() -> None:
    try:
        hvd.elastic.ObjectState(commit=1)
    except ValueError as error:
        assert "commit" in str(error)
    else:
        raise AssertionError("no error")


@check
def run_calls_the_function_until_it_gives_its_result() -> None:
    calls: List[int] = []

    @hvd.elastic.run
    def train_once(state: Any, more: int) -> int:
        """Doc."""
        state.check_host_updates()
        calls.append(state.value)
        if len(calls) == 1:
            state.on_hosts_updated(1, farandole.elastic.HostUpdateResult.added)
            state.commit()  # a job that is not elastic has no next epoch, and goes on in this one
        return state.value + more

    state = hvd.elastic.ObjectState(value=hvd.rank())
    assert train_once(state, more=5) == 5 and calls == [0, 0] and train_once.__doc__ == "Doc."


@check
def large_objects_travel_in_chunks() -> None:
    import farandole._object_stream as stream

    given = {"array": np.arange(5_000_000), "bytes": b"x" * stream.CHUNK_BYTES, "small": [1, 2, {"three": None}]}
    got = hvd.broadcast_object(given if hvd.rank() == 0 else None, 0)
    assert (got["array"] == given["array"]).all() and got["bytes"] == given["bytes"] and got["small"] == given["small"]
    for size in (stream.CHUNK_BYTES - 20, stream.CHUNK_BYTES - 10, stream.CHUNK_BYTES - 1, 2 * stream.CHUNK_BYTES):
        assert len(hvd.broadcast_object(bytes(size), hvd.size() - 1)) == size


@check
def object_that_cannot_be_pickled_in_a_later_chunk_is_named() -> None:
    import farandole._object_stream as stream

    class Stubborn:
        def __reduce__(self) -> Any:
            raise TypeError("it will not be pickled")

    try:
        hvd.broadcast_object([bytes(stream.CHUNK_BYTES + 1), Stubborn()], 0, "stubborn")
    except (TypeError, RuntimeError) as error:
        assert "it will not be pickled" in str(error)
    else:
        raise AssertionError("no error")
    assert hvd.broadcast_object("next", 0) == "next"


@check
def what_an_optimizer_keeps_comes_back_in_its_own_types() -> None:
    """Also what torch knows nothing of: a copy of the weights that is trained, and numbers in dicts and lists."""
    model = torch.nn.Linear(2, 2, bias=False, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = {
        "master": torch.full((2, 2), 1 / 3, requires_grad=True),
        "more": {"steps": torch.tensor(257), "old": [0, 0]},
    }
    kept["more"]["old"] = [torch.tensor([0.1], dtype=torch.float64), torch.ones(2, 2)]
    optimizer.state[model.weight] = kept
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer)
    for _ in range(2):
        optimizer.state[model.weight]["more"]["steps"].add_(1)
        optimizer.state[model.weight]["more"]["old"][1].zero_()
        state.restore()
        found = optimizer.state[model.weight]
        assert torch.equal(found["master"], torch.full((2, 2), 1 / 3)), found
        assert found["more"]["steps"].dtype == torch.int64 and found["more"]["steps"].item() == 257, found
        old = found["more"]["old"]
        assert [each.dtype for each in old] == [torch.float64, torch.float32] and old[1].eq(1).all(), found
