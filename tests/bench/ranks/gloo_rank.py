"""A rank of torch.distributed over Gloo: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in its environment."""

import models
import torch
import torch.distributed as dist
from orders import Buffers, Order, serve

_DTYPES = {"f32": torch.float32, "f16": torch.float16}


class _Exercise(Buffers):
    def __init__(self, order: Order) -> None:
        arrays = [torch.empty(order["count"], dtype=_DTYPES[order["dtype"]]) for _ in range(order["tensors"])]
        super().__init__(arrays, dist.get_rank(), dist.get_world_size())
        self.step = getattr(self, f"_{order['kind']}")

    def _one(self) -> None:
        dist.all_reduce(self.arrays[0])

    def _many(self) -> None:
        for work in [dist.all_reduce(array, async_op=True) for array in self.arrays]:
            work.wait()

    def _flat(self) -> None:
        flat = torch.cat(self.arrays)
        dist.all_reduce(flat)
        for array, part in zip(self.arrays, flat.split(len(self.arrays[0]))):
            array.copy_(part)


class _Contender:
    name = "gloo"

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.barrier = dist.barrier
        self.exercise = _Exercise

    def training(self, model: str, how: str) -> models.Training:
        """`how` is "ddp", or "alone": without communication."""
        training = models.Training(model, self.rank)
        if how == "ddp":
            training.call = torch.nn.parallel.DistributedDataParallel(training.model)
        return training


if __name__ == "__main__":
    dist.init_process_group("gloo")
    serve(_Contender())
    dist.destroy_process_group()
