"""Gluon's automatic mixed precision: a trainer's updates are those of one process that has the whole batch."""

import contextlib
from typing import Any, Iterator
from unittest import mock

import farandole.mxnet as hvd
import mxnet as mx
from harness import Checks
from mxnet.contrib.amp import amp

from mxnet_checks.training import alone, assert_close, batch, make_net, parameters_of, share

check = Checks()


@contextlib.contextmanager
def initialized() -> Iterator[None]:
    """MXNet's state after amp.init(), without its change of all operators of this process to 16 bits."""
    with mock.patch.multiple(amp, _amp_initialized=True, _amp_loss_scale_initialized=True):
        yield


def scaled_step(net: mx.gluon.Block, trainer: Any, unscales: bool) -> None:
    """One step of this rank's share, with its loss scaled."""
    inputs, targets = map(share, batch())
    with mx.autograd.record():
        loss = mx.gluon.loss.L2Loss()(net(inputs), targets)
        with amp.scale_loss(loss, trainer) as scaled:
            mx.autograd.backward(scaled)
    if unscales:
        amp.unscale(trainer)
    trainer.step(len(inputs))


@check.each((False, 1.0), (False, 4.0), (True, 1.0), (True, 4.0))
def scaled_losses_train_to_the_parameters_of_one_process(unscales: bool, factor: float) -> None:
    net = make_net(0)
    prefix = f"scaled.{unscales}.{factor}."
    terms = {"gradient_predivide_factor": factor, "prefix": prefix}
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05}, **terms)
    with initialized():
        amp.init_trainer(trainer)
        for _ in range(20):
            scaled_step(net, trainer, unscales)
    assert_close(parameters_of(net), alone("sgd"))


@check
def the_scale_is_what_the_program_has_set() -> None:
    """As an attribute of Horovod's trainer, which holds the division by the number of ranks."""
    parameters = make_net(0).collect_params()
    terms = {"optimizer_params": {"learning_rate": 0.05, "rescale_grad": 0.5}, "gradient_predivide_factor": 2.0}
    trainer = hvd.DistributedTrainer(parameters, "sgd", **terms)
    assert trainer._scale == 0.5 * 2.0 / hvd.size()
    for scale in (1.0, 0.25, trainer._scale):
        trainer._scale = scale
        assert abs(trainer._scale - scale) < 1e-12
