"""States of elastic programs, in a job that is not elastic itself: what they save, restore and synchronize."""

from typing import Any, Dict, List, Tuple

import farandole.mxnet as hvd
import mxnet as mx
import numpy
from harness import Checks
from mxnet.contrib.amp.loss_scaler import LossScaler

from mxnet_checks.training import assert_equal_on_all_ranks, make_net, parameters_of

check = Checks()

ONE, TWO = [mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]


def terms_of(kind: str) -> Dict[str, Any]:
    """Of an optimizer whose updates depend on how many it has made."""
    if kind == "schedule":
        schedule = mx.lr_scheduler.MultiFactorScheduler([2, 4, 6], factor=0.5, base_lr=0.1)
        return {"optimizer": "sgd", "optimizer_params": {"momentum": 0.9, "lr_scheduler": schedule}}
    return {"optimizer": kind, "optimizer_params": {"learning_rate": 0.05}}


class Replica:
    """A net and its trainer on some devices of this process. It trains by itself, on the same batch on all ranks."""

    def __init__(self, kind: str, devices: List[mx.Context], **options: Any) -> None:
        self.devices = devices
        self.net = make_net(0)
        self.net.collect_params().reset_ctx(devices)
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), **terms_of(kind), **options)

    def train(self, steps: int) -> None:
        """Takes so many steps, half of each on each of two devices."""
        for _ in range(steps):
            with mx.autograd.record():
                losses = [self.net(mx.nd.ones((2, 5), device)).square() for device in self.devices]
            mx.autograd.backward(losses)
            self.trainer.step(2)

    def parameters(self) -> Dict[str, numpy.ndarray]:
        return {
            f"{name}.{place}": array.asnumpy()
            for name, parameter in self.net.collect_params().items()
            for place, array in enumerate(parameter.list_data())
        }


# A kvstore of several devices makes the updates itself, unless it is told not to.
WAYS: Dict[str, Tuple[List[mx.Context], Dict[str, Any]]] = {
    "alone": (ONE, {"kvstore": None}),
    "local": (TWO, {"kvstore": "local"}),
    "device": (TWO, {"kvstore": "device"}),
    "apart": (TWO, {"kvstore": "local", "update_on_kvstore": False}),
}
ROWS = [
    *((kind, "alone") for kind in ("adam", "nadam", "ftml", "schedule")),
    *((kind, way) for kind in ("adam", "schedule") for way in ("local", "device")),
    ("adam", "apart"),
]


@check.each(*ROWS)
def a_restored_optimizer_makes_the_same_updates_again(kind: str, way: str) -> None:
    devices, options = WAYS[way]
    replica = Replica(kind, devices, **options)
    state = hvd.elastic.MxnetState(replica.net.collect_params(), replica.trainer, step=0)
    for steps in (3, 1):
        replica.train(steps)
        state.commit()
    ends = []
    for _ in range(2):
        replica.train(4)
        ends.append(replica.parameters())
        state.restore()
    for name, value in ends[0].items():
        numpy.testing.assert_array_equal(ends[1][name], value)


def goes_on_as_the_others(replica: Replica) -> None:
    """Of rank 0, which has trained before, the others get the state."""
    if hvd.rank() == 0:
        replica.train(3)
    state = hvd.elastic.MxnetState(replica.net.collect_params(), replica.trainer, step=0)
    state.sync()
    replica.train(4)
    assert_equal_on_all_ranks(replica.parameters())


@check.each(*ROWS)
def a_newcomers_optimizer_goes_on_as_the_others(kind: str, way: str) -> None:
    devices, options = WAYS[way]
    replica = Replica(kind, devices, **options)
    goes_on_as_the_others(replica)


@check
def counts_follow_the_optimizer_to_another_device() -> None:
    """Of a rank's own: MXNet counts updates by the number of the device."""
    replica = Replica("adam", [mx.cpu(hvd.rank())], kvstore=None)
    goes_on_as_the_others(replica)


@check
def learning_rates_that_a_program_sets_are_part_of_the_state() -> None:
    replica = Replica("sgd", ONE, kvstore=None)
    state = hvd.elastic.MxnetState(replica.net.collect_params(), replica.trainer, step=0)
    replica.trainer.set_learning_rate(0.5)
    state.restore()
    assert replica.trainer.learning_rate == 0.05
    replica.trainer.set_learning_rate(0.25 * (1 + hvd.rank()))
    state.sync()
    assert replica.trainer.learning_rate == 0.25


@check
def the_scale_of_losses_is_part_of_the_state() -> None:
    """Of automatic mixed precision: gradients whose losses had other scales cannot be added up."""
    net = make_net(0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    trainer._amp_loss_scaler = LossScaler()
    state = hvd.elastic.MxnetState(net.collect_params(), trainer, step=0)
    trainer._amp_loss_scaler._loss_scale = 4.0
    state.restore()
    assert trainer._amp_loss_scaler.loss_scale == 2.0**16
    trainer._amp_loss_scaler._loss_scale = 2.0 + hvd.rank()
    state.sync()
    assert trainer._amp_loss_scaler.loss_scale == 2.0


@check
def a_module_optimizers_counts_are_part_of_the_state() -> None:
    """Of one that is wrapped in a DistributedOptimizer, in a trainer of Gluon's own."""
    net = make_net(0)
    optimizer = hvd.DistributedOptimizer(mx.optimizer.create("adam"))
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, kvstore=None)
    optimizer.num_update = 3 + hvd.rank()
    state = hvd.elastic.MxnetState(net.collect_params(), trainer, step=0)
    state.sync()
    assert optimizer.unwrap().num_update == 3
    assert_equal_on_all_ranks(parameters_of(net))
