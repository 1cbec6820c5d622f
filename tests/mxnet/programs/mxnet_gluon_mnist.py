"""A program for Horovod's MXNet side with Gluon, written after its documentation."""

import argparse
import logging
import time

import horovod.mxnet as hvd
import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.test_utils import get_mnist

parser = argparse.ArgumentParser(description="MXNet Gluon MNIST Example")
parser.add_argument("--batch-size", type=int, default=50)
parser.add_argument("--dtype", type=str, default="float32")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
args = parser.parse_args()
logging.basicConfig(level=logging.INFO)

hvd.init()
context = mx.cpu(hvd.local_rank())
num_workers = hvd.size()


def get_mnist_iterator(rank):
    mnist = get_mnist()
    part = len(mnist["train_data"]) // num_workers
    mine = slice(rank * part, (rank + 1) * part)
    train_iter = mx.io.NDArrayIter(
        mnist["train_data"][mine], mnist["train_label"][mine], batch_size=args.batch_size, shuffle=True
    )
    val_iter = mx.io.NDArrayIter(mnist["test_data"], mnist["test_label"], batch_size=args.batch_size)
    return train_iter, val_iter


def conv_nets():
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(gluon.nn.Conv2D(channels=20, kernel_size=5, activation="relu"))
        net.add(gluon.nn.MaxPool2D(pool_size=2, strides=2))
        net.add(gluon.nn.Flatten())
        net.add(gluon.nn.Dense(64, activation="relu"))
        net.add(gluon.nn.Dense(10))
    return net


def evaluate(model, data_iter, context):
    data_iter.reset()
    metric = mx.metric.Accuracy()
    for batch in data_iter:
        data = batch.data[0].as_in_context(context)
        label = batch.label[0].as_in_context(context)
        metric.update([label], [model(data.astype(args.dtype, copy=False))])
    return metric.get()


train_data, val_data = get_mnist_iterator(hvd.rank())
model = conv_nets()
model.cast(args.dtype)
model.hybridize()

optimizer_params = {"momentum": args.momentum, "learning_rate": args.lr * hvd.size()}
opt = mx.optimizer.create("sgd", **optimizer_params)

initializer = mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2)
model.initialize(initializer, ctx=context)

params = model.collect_params()
if params is not None:
    hvd.broadcast_parameters(params, root_rank=0)

trainer = hvd.DistributedTrainer(params, opt, gradient_predivide_factor=args.gradient_predivide_factor)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
metric = mx.metric.Accuracy()

for epoch in range(args.epochs):
    tic = time.time()
    train_data.reset()
    metric.reset()
    for batch in train_data:
        data = batch.data[0].as_in_context(context)
        label = batch.label[0].as_in_context(context)
        with autograd.record():
            output = model(data.astype(args.dtype, copy=False))
            loss = loss_fn(output, label)
        loss.backward()
        trainer.step(args.batch_size)
        metric.update([label], [output])
    if hvd.rank() == 0:
        name, acc = metric.get()
        logging.info("Epoch[%d] Train: %s=%f Time cost=%.2f", epoch, name, acc, time.time() - tic)
    name, val_acc = evaluate(model, val_data, context)
    if hvd.rank() == 0:
        logging.info("Epoch[%d] Validation-%s=%f", epoch, name, val_acc)

checksum = sum(float(nd.sum(nd.abs(p.data().astype("float64"))).asscalar()) for p in params.values())
print(f"ends with accuracy {acc if hvd.rank() == 0 else val_acc:.2f} and parameters {checksum:.9f}", flush=True)
