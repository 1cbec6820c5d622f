"""A sampler that shares the rest of a pass over a dataset among the workers of the present epoch."""

import random
from typing import Any, Dict, Iterator, List, Sequence, Set, Sized

from torch.utils.data import Sampler

from ...basics import rank, size


class ElasticSampler(Sampler):
    """Gives each sample of a dataset to one rank, once a pass, also where workers come or go within the pass.

    Make it part of a TorchState, which shares the rest out anew. All ranks take the same steps: after each of them
    record_batch, and after a pass, not before it, set_epoch; commit after either. A batch must have the samples that
    the sampler gave next, so the order must be kept: BatchSampler and DataLoader do.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0, pad: bool = True) -> None:
        """`shuffle`: in an order of its own for each pass, by `seed`, which is the same on all ranks.

        `pad`: if the ranks cannot have equally many, the last samples are given to several of them, so that they can
        take equally many steps; `padding` says how many of this rank's are such. Without it, each sample is given once,
        and some ranks have one less.
        """
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.pad = pad
        self.epoch = 0
        self.processed_num = 0
        # Of this rank, in the pass that was begun last.
        self.indices: List[int] = []
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins the pass of that number, with all samples again."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has processed the next `batch_size` samples that it was given, or all where fewer were left.
        `batch_idx` is not used."""
        del batch_idx
        if batch_size < 0:
            raise ValueError(f"a batch cannot have {batch_size} samples")
        self._taken += batch_size
        self.processed_num = min(self.processed_num + batch_size * self.num_replicas, len(self.dataset))

    def record_indices(self, indices: Sequence[int]) -> None:
        """As record_batch, of the batch with these indices. ValueError: they are not the samples that this rank was
        given next."""
        expected = self._share()[self._taken : self._taken + len(indices)]
        if sorted(map(int, indices)) != sorted(expected):
            raise ValueError(f"rank {self.rank} was given the samples {expected} next, and recorded {list(indices)}")
        self.record_batch(0, len(indices))

    def get_indices(self, batch_idx: int, batch_size: int) -> List[int]:
        """The indices of this rank's batch of that number, counted from the point at which the rest was shared out."""
        return self._share()[batch_idx * batch_size : (batch_idx + 1) * batch_size]

    @property
    def processed_indices(self) -> Set[int]:
        """The samples of this pass that all ranks together have processed."""
        return set(self._order()[: self.processed_num])

    def state_dict(self) -> Dict[str, Any]:
        """The pass, and how many of its samples were processed by all ranks together."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on from there; Horovod's is one as well. ValueError: one of a Horovod before 0.28, which has other keys."""
        if "processed_num" not in state_dict:
            raise ValueError(
                f"an ElasticSampler's state has epoch and processed_num, and this one {', '.join(map(str, state_dict))}: "
                "begin its pass anew, by set_epoch()"
            )
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Shares the rest among the ranks of the present epoch."""
        self.share_out(rank(), size())

    def share_out(self, own_rank: int, num_replicas: int) -> None:
        """Shares the rest among so many ranks, of which this is one."""
        self.rank = own_rank
        self.num_replicas = num_replicas
        self._taken = 0
        self.remaining_indices: List[int] = self._order()[self.processed_num :]
        left = len(self.remaining_indices)
        mine = len(range(own_rank, left, num_replicas))
        self.num_samples = -(-left // num_replicas) if self.pad else mine
        self.padding = self.num_samples - mine
        self.total_size = self.num_samples * num_replicas if self.pad else left

    def _order(self) -> List[int]:
        if not self.shuffle:
            return list(range(len(self.dataset)))
        order = list(range(len(self.dataset)))
        # As Horovod's does it, whose states are to mean the same samples.
        random.Random(self.seed + self.epoch).shuffle(order)
        return order

    def _share(self) -> List[int]:
        share = self.remaining_indices[self.rank :: self.num_replicas]
        if self.padding:
            place = self.rank + len(share) * self.num_replicas - len(self.remaining_indices)
            share.append(self.remaining_indices[place % len(self.remaining_indices)])
        return share

    def __iter__(self) -> Iterator[int]:
        if self.processed_num < len(self.dataset) and self._taken:
            self.share_out(self.rank, self.num_replicas)
        # A pass that was not ended by set_epoch is made again.
        self._taken = 0
        self.indices = self._share()
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
