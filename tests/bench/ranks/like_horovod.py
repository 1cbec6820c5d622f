"""The contender of a package with Horovod's names: Farandole and Horovod themselves."""

from typing import Any

import models
import torch
from orders import Buffers, Order

_DTYPES = {"f32": torch.float32, "f16": torch.float16}


class _Exercise(Buffers):
    def __init__(self, hvd: Any, order: Order) -> None:
        arrays = [torch.empty(order["count"], dtype=_DTYPES[order["dtype"]]) for _ in range(order["tensors"])]
        super().__init__(arrays, hvd.rank(), hvd.size())
        self._hvd = hvd
        self._names = [f"bench.{i}" for i in range(len(arrays))]
        self.step = getattr(self, f"_{order['kind']}")

    def _one(self) -> None:
        self._hvd.allreduce_(self.arrays[0], name="bench", op=self._hvd.Sum)

    def _many(self) -> None:
        hvd = self._hvd
        handles = [hvd.allreduce_async_(array, name=name, op=hvd.Sum) for array, name in zip(self.arrays, self._names)]
        for handle in handles:
            hvd.synchronize(handle)

    def _flat(self) -> None:
        self._hvd.grouped_allreduce_(self.arrays, name="bench", op=self._hvd.Sum)


class Contender:
    """`hvd` is the package's torch module, initialized."""

    def __init__(self, name: str, hvd: Any) -> None:
        self.name = name
        self.rank = hvd.rank()
        self.size = hvd.size()
        self._hvd = hvd

    def barrier(self) -> None:
        """Of all ranks."""
        self._hvd.barrier()

    def exercise(self, order: Order) -> _Exercise:
        """A collective."""
        return _Exercise(self._hvd, order)

    def training(self, model: str, how: str) -> models.Training:
        """`how` is the contender's name: there is one way."""
        assert how == self.name, how
        training = models.Training(model, self.rank)
        training.optimizer = self._hvd.DistributedOptimizer(
            training.optimizer, named_parameters=training.model.named_parameters()
        )
        self._hvd.broadcast_parameters(training.model.state_dict(), root_rank=0)
        return training
