"""A rank of MXNet: `farandole run -np N python mxnet_rank.py farandole SOCKET`. MXNet's own way, a parameter server, is not in its
last release's packages."""

from typing import Any, List

import farandole.mxnet as hvd
import mxnet as mx
from framework_orders import LAYERS, RATE, Exercise, Training, batch, parameters
from orders import Order, serve

Arrays = List[Any]


def _reduce(arrays: Arrays) -> Arrays:
    for index, array in enumerate(arrays):
        hvd.allreduce_(array, average=False, name=f"bench.{index}")
    for array in arrays:
        array.wait_to_read()
    return arrays


class _Contender:
    name = "farandole"

    def __init__(self) -> None:
        self.rank, self.size = hvd.rank(), hvd.size()
        self._none = [mx.nd.zeros(1)]

    def barrier(self) -> None:
        """Of all ranks."""
        _reduce(self._none)

    def exercise(self, order: Order) -> Exercise:
        """A collective."""
        return Exercise(order, [self.rank, self.size], mx.nd.array, _reduce, lambda array: array.asnumpy())

    def training(self, model: str, how: str) -> Training:
        """`how`: "alone", without communication, or "farandole"."""
        del model
        net = mx.gluon.nn.HybridSequential()
        for inputs, outputs in LAYERS:
            net.add(mx.gluon.nn.Dense(outputs, None if outputs == LAYERS[-1][1] else "relu", in_units=inputs))
        net.initialize()
        net.hybridize()
        made = parameters()
        for layer, weight, bias in zip(net, made[::2], made[1::2]):
            layer.weight.set_data(mx.nd.array(weight.T))
            layer.bias.set_data(mx.nd.array(bias))
        options = {"learning_rate": RATE}
        kind = mx.gluon.Trainer if how == "alone" else hvd.DistributedTrainer
        trainer = kind(net.collect_params(), "sgd", options, **({"kvstore": None} if how == "alone" else {}))
        loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        inputs, classes = map(mx.nd.array, batch(self.rank))

        def step(arrays: Arrays) -> Arrays:
            with mx.autograd.record():
                loss = loss_of(net(inputs), classes)
            loss.backward()
            trainer.step(len(inputs))
            mx.nd.waitall()
            return arrays

        parts = [array.data() for layer in net for array in (layer.weight, layer.bias)]
        return Training(parts, step, lambda array: array.asnumpy())


if __name__ == "__main__":
    hvd.init()
    serve(_Contender())
    hvd.shutdown()
