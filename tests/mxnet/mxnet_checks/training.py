"""Training: the ranks come to the parameters of one process that has the whole batch."""

import pickle
from typing import Any, Dict, Tuple

import farandole.mxnet as hvd
import mxnet as mx
import numpy
from harness import Checks, expect_error, noted_sections

check = Checks()

ROWS, FEATURES = 12, 5


def batch() -> Tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """The whole batch, the same on all ranks: 12 rows, which 1 to 4 ranks share equally."""
    inputs = numpy.random.RandomState(1).randn(ROWS, FEATURES).astype("float32")
    return mx.nd.array(inputs), mx.nd.array(numpy.tanh(inputs @ numpy.arange(FEATURES)).reshape(-1, 1))


def share(array: mx.nd.NDArray) -> mx.nd.NDArray:
    rows = ROWS // hvd.size()
    return array[hvd.rank() * rows : (hvd.rank() + 1) * rows]


def make_net(seed: int, has_sizes: bool = True) -> mx.gluon.nn.HybridSequential:
    mx.random.seed(seed)
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(8, activation="tanh", in_units=FEATURES if has_sizes else 0))
        net.add(mx.gluon.nn.Dense(1, in_units=8 if has_sizes else 0))
    net.initialize(mx.init.Normal(0.3), force_reinit=True)
    return net


def parameters_of(net: mx.gluon.Block) -> Dict[str, numpy.ndarray]:
    return {name: parameter.data().asnumpy() for name, parameter in net.collect_params().items()}


def train(net: mx.gluon.Block, trainer: Any, inputs: mx.nd.NDArray, targets: mx.nd.NDArray) -> Dict[str, numpy.ndarray]:
    loss_of = mx.gluon.loss.L2Loss()
    for _ in range(20):
        with mx.autograd.record():
            loss = loss_of(net(inputs), targets)
        loss.backward()
        trainer.step(len(inputs))
    return parameters_of(net)


def alone(kind: str, seed: int = 0) -> Dict[str, numpy.ndarray]:
    net = make_net(seed)
    return train(net, mx.gluon.Trainer(net.collect_params(), kind, {"learning_rate": 0.05}, kvstore=None), *batch())


def assert_close(found: Dict[str, numpy.ndarray], wanted: Dict[str, numpy.ndarray], tolerance: float = 1e-5) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        numpy.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance)


def assert_equal_on_all_ranks(parameters: Dict[str, numpy.ndarray]) -> None:
    for other in hvd.allgather_object(parameters):
        for name, value in parameters.items():
            numpy.testing.assert_array_equal(other[name], value)


def train_distributed(kind: str, hybridizes: bool = False, **terms: Any) -> Dict[str, numpy.ndarray]:
    net = make_net(hvd.rank())
    if hybridizes:
        net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), kind, {"learning_rate": 0.05}, **terms)
    return train(net, trainer, *map(share, batch()))


@check.each("sgd", "adam")
def a_trainer_trains_to_the_parameters_of_one_process(kind: str) -> None:
    wanted = alone(kind)
    found = train_distributed(kind)
    assert_close(found, wanted)
    assert_equal_on_all_ranks(found)
    assert_close(train_distributed(kind, hybridizes=True), wanted)


@check
def a_trainers_terms_change_nothing_of_that() -> None:
    wanted = alone("sgd")
    assert_close(train_distributed("sgd", num_groups=2), wanted)
    assert_close(train_distributed("sgd", num_groups=50, prefix="other."), wanted)
    assert_close(train_distributed("sgd", gradient_predivide_factor=4.0), wanted)
    assert_close(train_distributed("sgd", compression=hvd.Compression.fp16), wanted, 0.01)
    assert_close(train_distributed("sgd", compression=hvd.Compression.bf16, num_groups=1), wanted, 0.05)


@check
def parameters_without_a_gradient_are_left_out() -> None:
    net = make_net(0)
    net[0].weight.grad_req = "null"
    before = net[0].weight.data().asnumpy()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    train(net, trainer, *map(share, batch()))
    numpy.testing.assert_array_equal(net[0].weight.data().asnumpy(), before)


@check.each("0", "1")
def a_parameter_that_is_frozen_on_one_rank_is_named(groups: str) -> None:
    if hvd.size() < 2:
        return
    net = make_net(0)
    frozen = net[0 if hvd.rank() == 0 else 1].weight
    frozen.grad_req = "null"
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": 0.05}, num_groups=int(groups), prefix=f"frozen{groups}."
    )
    words = ("net_dense0_weight: rank 0 has no gradient (grad_req null)", "rank 1 has a gradient")
    expect_error(ValueError, lambda: train(net, trainer, *map(share, batch())), *words)


@check
def groups_of_other_parameters_are_told_in_a_later_step() -> None:
    if hvd.size() < 2:
        return
    parameters = [mx.gluon.Parameter(name, shape=(2,)) for name in "abc"]
    for each in parameters:
        each.initialize(mx.init.Zero())
    trainer = hvd.DistributedTrainer(parameters, "sgd", {"learning_rate": 1.0}, num_groups=1, prefix="later.")

    def step() -> None:
        with mx.autograd.record():
            loss = sum(each.data().sum() for each in parameters)
        loss.backward()
        trainer.step(1)
        for each in parameters:
            each.data().asnumpy()

    step()
    parameters[0 if hvd.rank() == 0 else 1].grad_req = "null"
    expect_error(ValueError, step, "has shape [0,2,")


@check
def a_process_set_trains_by_itself() -> None:
    if hvd.size() < 2:
        return
    first = hvd.add_process_set(list(range(hvd.size() - 1)))
    if first.included():
        net = make_net(0)
        trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05}, process_set=first)
        # All of the set have the whole batch, so that the average is the whole batch's gradient.
        assert_close(train(net, trainer, *batch()), alone("sgd"))
        mx.nd.waitall()
    hvd.barrier()
    hvd.remove_process_set(first)


@check
def parameters_that_get_their_shape_later_are_broadcast_then() -> None:
    net = make_net(hvd.rank(), has_sizes=False)
    params = net.collect_params()
    hvd.broadcast_parameters(params, root_rank=0)
    trainer = hvd.DistributedTrainer(params, "sgd", {"learning_rate": 0.05})
    inputs, targets = map(share, batch())
    net(inputs)
    assert_equal_on_all_ranks(parameters_of(net))
    assert_equal_on_all_ranks(train(net, trainer, inputs, targets))
    # Another initialization is the program's own affair.
    net.initialize(mx.init.Normal(0.3), force_reinit=True)


@check
def a_dictionary_of_arrays_is_broadcast() -> None:
    arrays = {"b": mx.nd.full((2,), hvd.rank()), "a": mx.nd.full((3, 1), hvd.rank(), dtype="float64")}
    hvd.broadcast_parameters(arrays, root_rank=hvd.size() - 1, prefix="arrays.")
    assert all((array.asnumpy() == hvd.size() - 1).all() for array in arrays.values())


def module_trained(optimizer: mx.optimizer.Optimizer, rows: slice) -> Dict[str, numpy.ndarray]:
    """A Module that was fitted to these rows of the batch, in one batch a pass."""
    inputs, targets = (array.asnumpy()[rows] for array in batch())
    data = mx.io.NDArrayIter(inputs, targets.ravel(), batch_size=len(inputs), label_name="target_label")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8), act_type="tanh")
    output = mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(hidden, num_hidden=1, name="out"), mx.sym.Variable("target_label"), name="target"
    )
    module = mx.mod.Module(output, data_names=["data"], label_names=["target_label"])
    module.bind(data_shapes=data.provide_data, label_shapes=data.provide_label)
    mx.random.seed(hvd.rank())
    module.init_params(mx.init.Normal(0.3))
    arguments, auxiliaries = module.get_params()
    hvd.broadcast_parameters(arguments, root_rank=0)
    module.set_params(arguments, auxiliaries)
    module.fit(data, kvstore=None, optimizer=optimizer, num_epoch=10, eval_metric="mse")
    return {name: array.asnumpy() for name, array in sorted(module.get_params()[0].items())}


def by_place(parameters: Dict[str, numpy.ndarray]) -> Dict[str, numpy.ndarray]:
    """MXNet numbers the names of layers on and on."""
    return {str(place): parameters[name] for place, name in enumerate(sorted(parameters))}


@check.each(0, 4)
def a_modules_optimizer_trains_to_the_parameters_of_one_process(aggregated: int) -> None:
    def optimizer(rows: int) -> mx.optimizer.Optimizer:
        made = mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9, rescale_grad=1 / rows)
        made.aggregate_num = aggregated
        return made

    rows = ROWS // hvd.size()
    mine = slice(hvd.rank() * rows, (hvd.rank() + 1) * rows)
    wanted = by_place(module_trained(optimizer(ROWS), slice(None)))
    for terms in ({}, {"num_groups": 1}, {"gradient_predivide_factor": 2.0}):
        found = by_place(module_trained(hvd.DistributedOptimizer(optimizer(rows), **terms), mine))
        assert_close(found, wanted)
        assert_equal_on_all_ranks(found)


@check
def an_optimizers_attributes_are_the_wrapped_ones() -> None:
    inner = mx.optimizer.create("sgd", learning_rate=0.5)
    optimizer = hvd.DistributedOptimizer(inner)
    assert isinstance(optimizer, mx.optimizer.Optimizer) and optimizer.rescale_grad == 1 / hvd.size()
    optimizer.set_learning_rate(0.25)
    assert inner.learning_rate == 0.25 == optimizer.learning_rate
    optimizer.rescale_grad = 3.0
    assert inner.rescale_grad == 3.0
    optimizer.rescale_grad = 1 / hvd.size()
    again = pickle.loads(pickle.dumps(optimizer))
    assert isinstance(again, hvd.DistributedOptimizer) and again.learning_rate == 0.25
    assert again.unwrap().rescale_grad == 1.0
    trainer = hvd.DistributedTrainer(make_net(0).collect_params(), optimizer)
    assert trainer.learning_rate == 0.25 and inner.rescale_grad == 1.0


@check
def a_step_of_the_trainer_is_a_section_of_the_program() -> None:
    net = make_net(0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    inputs, targets = batch()
    with noted_sections() as seen:
        with mx.autograd.record():
            loss = mx.gluon.loss.L2Loss()(net(inputs), targets)
        loss.backward()
        trainer.step(len(inputs))
    assert seen == ["[step", "]"], seen
