"""Trains a small CNN on Fashion-MNIST with MXNet's Gluon and several workers.

    .venv/bin/farandole run -np 2 .venv-mxnet/bin/python examples/mxnet_fashion_mnist.py
    .venv-mxnet/bin/python examples/mxnet_fashion_mnist.py            # the same with one worker

With any number of workers it trains to the same parameters, as far as rounding goes, since --batch-size counts the images
of all of them.
"""

import farandole.mxnet as hvd
import mxnet as mx
from fashion_mnist_data import Images, parse_arguments, read_images, report, shares
from mxnet import autograd, gluon


def make_net() -> gluon.nn.HybridSequential:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(channels=16, kernel_size=3, padding=1, activation="relu"))
    net.add(gluon.nn.MaxPool2D())
    net.add(gluon.nn.Conv2D(channels=32, kernel_size=3, padding=1, activation="relu"))
    net.add(gluon.nn.MaxPool2D())
    net.add(gluon.nn.Dense(128, activation="relu"))
    net.add(gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def inputs_of(images: Images) -> mx.nd.NDArray:
    return mx.nd.array(images.inputs.reshape(-1, 1, 28, 28))


def main() -> None:
    arguments = parse_arguments(__doc__)
    hvd.init()
    mx.random.seed(hvd.rank() + 1)
    net = make_net()
    # The shapes of the weights follow from the first batch: they are broadcast then.
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    train = read_images(arguments.data, "train")
    batches = shares(train, arguments.batch_size, arguments.steps, hvd.rank(), hvd.size())
    for number, batch in enumerate(batches):
        with autograd.record():
            loss = loss_of(net(inputs_of(batch)), mx.nd.array(batch.labels))
        loss.backward()
        trainer.step(len(batch.labels))
        if number % 100 == 0:
            mean = hvd.allreduce(loss.mean(), name="loss").asscalar()
            if hvd.rank() == 0:
                print(f"step {number}: loss of all workers {mean:.4f}", flush=True)

    if hvd.rank() == 0:
        test = read_images(arguments.data, "t10k")
        logits = net(inputs_of(test)).asnumpy()
        parameters = [parameter.data().asnumpy() for parameter in net.collect_params().values()]
        report(logits, test, arguments.save, parameters, hvd.size())
    hvd.shutdown()


if __name__ == "__main__":
    main()
