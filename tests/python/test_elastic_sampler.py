"""ElasticSampler: every sample once a pass, however workers come and go."""

import random
from collections import Counter
from typing import Iterator, List

import farandole.torch as hvd
import pytest


@pytest.fixture(autouse=True, scope="module")
def _job_of_size_one() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


def samplers(count: int, ranks: int, state: dict, pad: bool) -> List[hvd.elastic.ElasticSampler]:
    """Of all ranks of an epoch, as they are after a sync."""
    made = []
    for rank in range(ranks):
        sampler = hvd.elastic.ElasticSampler(range(count), seed=5, pad=pad)
        sampler.load_state_dict(state)
        sampler.share_out(rank, ranks)
        made.append(sampler)
    return made


def step(ranks: List[hvd.elastic.ElasticSampler], shares: List[List[int]], position: int, batch: int) -> List[int]:
    """All ranks process a batch; gives the samples, without those that are repeated."""
    seen = []
    for sampler, share in zip(ranks, shares):
        own = len(share) - sampler.padding
        seen += share[position : min(position + batch, own)]
        if sampler.rank % 2 and len(share[position : position + batch]) == batch:
            sampler.record_indices(share[position : position + batch])
        else:
            sampler.record_batch(position // batch, batch)
    assert len({sampler.processed_num for sampler in ranks}) == 1, "all ranks know what all have processed"
    return seen


@pytest.mark.parametrize("seed", range(60))
def test_every_sample_is_processed_once_across_joins_and_losses(seed: int) -> None:
    chance = random.Random(seed)
    count, batch, pad = chance.randrange(1, 200), chance.randrange(1, 9), chance.random() < 0.7
    committed, state = Counter(), {"epoch": seed, "processed_num": 0}
    while state["processed_num"] < count:
        ranks = samplers(count, chance.randrange(1, 6), state, pad)
        shares = [list(sampler) for sampler in ranks]
        assert [len(share) for share in shares] == [len(sampler) for sampler in ranks]
        assert not pad or len(set(map(len, shares))) == 1, "equally many steps on all ranks"
        uncommitted = Counter()
        for number in range(chance.randrange(1, 8)):
            uncommitted.update(step(ranks, shares, number * batch, batch))
            if chance.random() < 0.4:  # a commit; later samples are lost with the epoch
                committed += uncommitted
                uncommitted, state = Counter(), ranks[-1].state_dict()
    assert committed == Counter(range(count))


def test_passes_have_orders_of_their_own_that_all_ranks_know() -> None:
    orders = [list(samplers(50, 1, {"epoch": epoch, "processed_num": 0}, True)[0]) for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == list(range(50))
    plain = hvd.elastic.ElasticSampler(range(50), shuffle=False)
    assert list(plain) == list(range(50))


def test_set_epoch_begins_a_pass_and_a_second_iterator_goes_on_with_it() -> None:
    sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
    sampler.record_batch(0, 4)
    assert list(sampler) == [4, 5, 6, 7, 8, 9] and len(sampler) == 6
    sampler.set_epoch(1)
    assert list(sampler) == list(range(10)) and sampler.state_dict() == {"epoch": 1, "processed_num": 0}


def test_more_ranks_than_samples_share_them_by_repetition() -> None:
    ranks = samplers(2, 5, {"epoch": 0, "processed_num": 1}, True)
    shares = [list(sampler) for sampler in ranks]
    assert len({tuple(share) for share in shares}) == 1 and [sampler.padding for sampler in ranks] == [0, 1, 1, 1, 1]
    assert [len(sampler) for sampler in samplers(2, 5, {"epoch": 0, "processed_num": 2}, True)] == [0] * 5


def test_samples_that_were_not_given_next_are_named() -> None:
    sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
    with pytest.raises(ValueError, match=r"rank 0 was given the samples \[0, 1\] next, and recorded \[1, 2\]"):
        sampler.record_indices([1, 2])
    sampler.record_indices([1, 0])
    with pytest.raises(ValueError, match="-1"):
        sampler.record_batch(0, -1)
    assert sampler.processed_num == 2


def test_what_was_processed_can_be_asked_for_and_horovods_state_is_refused_in_a_sentence() -> None:
    state = {"epoch": 1, "processed_num": 0}
    first, second = samplers(10, 2, state, pad=True)
    batches = [list(sampler)[:3] for sampler in (first, second)]
    assert batches == [first.get_indices(0, 3), second.get_indices(0, 3)] and first.processed_indices == set()
    for sampler in (first, second):
        sampler.record_batch(0, 3)
    assert first.processed_indices == second.processed_indices == set(batches[0] + batches[1])
    with pytest.raises(ValueError, match="processed_num, and this one epoch, processed_indices"):
        first.load_state_dict({"epoch": 1, "processed_indices": {0, 1}})


def test_a_pass_that_was_not_ended_is_made_again_as_with_horovod() -> None:
    sampler = hvd.elastic.ElasticSampler(range(8))
    passes = []
    for _ in range(3):
        passes.append(list(sampler))
        for number in range(4):
            sampler.record_batch(number, 2)
    assert passes[0] == passes[1] == passes[2] == sampler.indices and len(sampler) == 8


def test_a_state_of_horovods_means_the_same_samples() -> None:
    sampler = hvd.elastic.ElasticSampler(range(16), seed=2)
    sampler.load_state_dict({"epoch": 3, "processed_num": 8})
    order = list(range(16))
    random.Random(2 + 3).shuffle(order)
    assert list(sampler) == order[8:]
