"""A program for Horovod's MXNet side with Module, written after its documentation."""

import argparse
import logging

import horovod.mxnet as hvd
import mxnet as mx
from mxnet.test_utils import get_mnist

parser = argparse.ArgumentParser(description="MXNet MNIST Example")
parser.add_argument("--batch-size", type=int, default=50)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.9)
args = parser.parse_args()
logging.basicConfig(level=logging.INFO)


def get_mnist_iterator(rank):
    mnist = get_mnist()
    part = len(mnist["train_data"]) // hvd.size()
    mine = slice(rank * part, (rank + 1) * part)
    train_iter = mx.io.NDArrayIter(mnist["train_data"][mine], mnist["train_label"][mine], batch_size=args.batch_size)
    val_iter = mx.io.NDArrayIter(mnist["test_data"], mnist["test_label"], batch_size=args.batch_size)
    return train_iter, val_iter


def mlp_net():
    data = mx.sym.flatten(data=mx.sym.Variable("data"))
    hidden = mx.sym.Activation(mx.sym.FullyConnected(data=data, num_hidden=64), act_type="relu")
    return mx.sym.SoftmaxOutput(data=mx.sym.FullyConnected(data=hidden, num_hidden=10), name="softmax")


hvd.init()
context = mx.cpu(hvd.local_rank())
train_iter, val_iter = get_mnist_iterator(hvd.rank())
model = mx.mod.Module(symbol=mlp_net(), context=context)

optimizer_params = {"learning_rate": args.lr, "rescale_grad": 1.0 / args.batch_size, "momentum": args.momentum}
opt = mx.optimizer.create("sgd", **optimizer_params)
opt = hvd.DistributedOptimizer(opt)

initializer = mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2)
model.bind(data_shapes=train_iter.provide_data, label_shapes=train_iter.provide_label)
model.init_params(initializer)

(arg_params, aux_params) = model.get_params()
if arg_params:
    hvd.broadcast_parameters(arg_params, root_rank=0)
if aux_params:
    hvd.broadcast_parameters(aux_params, root_rank=0)
model.set_params(arg_params=arg_params, aux_params=aux_params)

model.fit(
    train_iter,
    kvstore=None,
    eval_data=val_iter if hvd.rank() == 0 else None,
    optimizer=opt,
    batch_end_callback=mx.callback.Speedometer(args.batch_size, 10) if hvd.rank() == 0 else None,
    num_epoch=args.epochs,
)

acc = mx.metric.Accuracy()
model.score(val_iter, acc)
arguments, _ = model.get_params()
checksum = sum(float(mx.nd.sum(mx.nd.abs(array.astype("float64"))).asscalar()) for array in arguments.values())
print(f"ends with accuracy {acc.get()[1]:.2f} and parameters {checksum:.9f}", flush=True)
