"""The five lines of MXNet's page, as they stand there."""

import pathlib

import pages

BEFORE = """
import os
import mxnet as mx

rank = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
net.initialize(mx.init.Constant(1.0 + rank))
"""
AFTER = """
assert net.weight.data().asnumpy().tolist() == [[1.0, 1.0]]
with mx.autograd.record():
    loss = net(mx.nd.ones((4, 2)) * (1 + 2 * rank))
loss.backward()
trainer.step(4)
# The gradient is 1 on rank 0, and 3 on rank 1.
assert abs(net.weight.data().asnumpy() - (1 - 0.02 * 2)).max() < 1e-6, net.weight.data()
"""


def test_its_five_lines_run(tmp_path: pathlib.Path) -> None:
    pages.require_five_lines(tmp_path, "mxnet.md", BEFORE, AFTER)
