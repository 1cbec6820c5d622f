"""Tapes, optimizers, variables, batch normalization and elastic states: the training of one process with the whole batch."""

from typing import Any, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks, expect_error, noted_sections

from tensorflow_checks.compiled import COMPILES

check = Checks()

BY_XLA = ["xla"] if COMPILES else []

STEPS = 4


def model() -> Any:
    """The same on all ranks, and each time."""
    tf.keras.utils.set_random_seed(5)
    made = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(1)])
    made.build((None, 4))
    return made


def batch(step: int) -> Any:
    """The whole batch of a step: six rows of each rank."""
    random = numpy.random.RandomState(step)
    inputs = random.rand(6 * hvd.size(), 4).astype(numpy.float32)
    return inputs, inputs.sum(1, keepdims=True)


def rows(array: Any) -> Any:
    return array[6 * hvd.rank() : 6 * (hvd.rank() + 1)]


def loss_of(net: Any, inputs: Any, targets: Any) -> Any:
    return tf.reduce_mean(tf.square(net(inputs) - targets))


def trained_alone() -> List[Any]:
    """The weights after training in one process with the whole batch."""
    net, optimizer = model(), tf.keras.optimizers.SGD(0.1, momentum=0.9)
    for step in range(STEPS):
        with tf.GradientTape() as tape:
            loss = loss_of(net, *batch(step))
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return net.get_weights()


def assert_trained(net: Any) -> None:
    for mine, alone in zip(net.get_weights(), trained_alone()):
        numpy.testing.assert_allclose(mine, alone, rtol=2e-5, atol=1e-6)


@check.each("eager", "function", *BY_XLA, "groups", "predivided")
def a_tape_trains_as_one_process(way: str) -> None:
    net, optimizer = model(), tf.keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(net.trainable_variables)
    options = {"groups": {"num_groups": 2}, "predivided": {"gradient_predivide_factor": 2.0}}.get(way, {})

    def step(inputs: Any, targets: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(net, inputs, targets)
        tape = hvd.DistributedGradientTape(tape, **options)
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))

    run = step if way == "eager" else tf.function(step, jit_compile=way == "xla")
    for number in range(STEPS):
        run(*map(tf.constant, map(rows, batch(number))))
    assert_trained(net)


@check.each("fit", "eager fit", *(f"{way} fit" for way in BY_XLA))
def a_keras_optimizer_trains_as_one_process(way: str) -> None:
    net = model()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
    net.compile(optimizer, "mse", run_eagerly=way == "eager fit", jit_compile=way == "xla fit")
    for number in range(STEPS):
        inputs, targets = map(rows, batch(number))
        net.fit(inputs, targets, batch_size=6, epochs=1, verbose=0)
    assert_trained(net)
    assert type(optimizer).__name__ == "SGD" and type(optimizer).__module__ == tf.keras.optimizers.SGD.__module__


@check
def gradients_of_two_passes_are_added_up() -> None:
    variable = tf.Variable([1.0])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), backward_passes_per_step=2)

    @tf.function
    def step(gradient: Any) -> None:
        optimizer.apply_gradients([(gradient, variable)])

    mean = sum(range(hvd.size())) / hvd.size()
    for number in range(1, 5):
        step(tf.constant([float(hvd.rank())]))
        numpy.testing.assert_allclose(variable.numpy(), [1.0 - 2 * mean * (number // 2)], rtol=1e-6)


@check
def a_new_epoch_begins_with_the_first_pass_in_a_v1_session() -> None:
    """Nothing outside of the session can assign to its variables. The third pass is the last that its epoch has."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", initializer=[0.0])
        sgd = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        optimizer = hvd.DistributedOptimizer(sgd, backward_passes_per_step=2)
        step = optimizer.minimize(-tf.reduce_sum(variable))
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.local_variables_initializer()])
        found = []
        for number in range(1, 7):
            session.run(step)
            found.append(float(session.run(variable)[0]))
            if number == 3:
                session.run(optimizer._local._epoch.assign(1 << 20))
        assert found == [0.0, 2.0, 2.0, 2.0, 4.0, 4.0], found


@check
def local_layers_keep_their_own_gradients() -> None:
    layers = [tf.keras.layers.Dense(2, use_bias=False, kernel_initializer="ones") for _ in range(2)]
    value = tf.fill([1, 2], float(hvd.rank() + 1))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layers[1](layers[0](value)))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=layers[0])
    local, shared = tape.gradient(loss, [layer.trainable_variables[0] for layer in layers])
    size = hvd.size()
    tf.debugging.assert_near(local, tf.fill([2, 2], 2.0 * (hvd.rank() + 1) / size))
    tf.debugging.assert_near(shared, tf.fill([2, 2], 2.0 * sum(range(1, size + 1)) / size))


@check
def slices_of_an_embedding_are_reduced() -> None:
    for is_dense in (False, True):
        table = tf.Variable(tf.zeros([4, 2]))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [hvd.rank() % 4, 0]))
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=is_dense, op=hvd.Sum)
        found = tape.gradient(loss, table)
        assert isinstance(found, tf.IndexedSlices) != is_dense
        wanted = numpy.zeros([4, 2])
        for rank in range(hvd.size()):
            wanted[[rank % 4]] += 1
            wanted[0] += 1
        numpy.testing.assert_array_equal(tf.convert_to_tensor(found).numpy(), wanted)


@check.each("variables", "references")
def a_v1_optimizer_reduces_slices(kind: str) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", initializer=tf.zeros([4, 2]), use_resource=kind == "variables")
        loss = tf.reduce_sum(tf.gather(table, [hvd.rank() % 4, 0]))
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), op=hvd.Sum)
        pairs = optimizer.compute_gradients(loss, [table])
        assert isinstance(pairs[0][0], tf.IndexedSlices)
        step = optimizer.apply_gradients(pairs)
        session.run(table.initializer)
        session.run(step)
        found = session.run(table)
    wanted = numpy.zeros([4, 2])
    for place in [each for rank in range(hvd.size()) for each in (rank % 4, 0)]:
        wanted[place] -= 1
    numpy.testing.assert_array_equal(found, wanted)


@check
def all_ranks_start_from_the_roots_variables() -> None:
    root = hvd.size() - 1
    variables = [tf.Variable(tf.fill([3], float(hvd.rank()))), tf.Variable(hvd.rank(), dtype=tf.int64)]
    hvd.broadcast_variables(variables, root_rank=root)
    assert [each.numpy().tolist() for each in variables] == [[root] * 3, root]
    net = model()
    net.set_weights([each + hvd.rank() for each in net.get_weights()])
    hvd.broadcast_variables(net.variables, root_rank=root)
    for other in hvd.allgather_object(net.get_weights()):
        assert all((mine == its).all() for mine, its in zip(net.get_weights(), other))


@check
def variables_that_differ_are_told() -> None:
    if hvd.size() == 1:
        return
    is_last = hvd.rank() == hvd.size() - 1
    for fewer in (0, 1):
        variables = [tf.Variable(tf.ones([3])) for _ in range(fewer if is_last else 2)]
        words = (f"broadcast_variables.{fewer}", "no such tensor", "shape [3] of float32")
        expect_error(ValueError, lambda variables=variables: hvd.broadcast_variables(variables, root_rank=0), *words)
    variables = [tf.Variable(tf.ones([2 if is_last else 3]))]
    expect_error(ValueError, lambda: hvd.broadcast_variables(variables, root_rank=0), "shape [2]", "shape [3]")
    assert float(hvd.allreduce(tf.ones([]), op=hvd.Sum)) == hvd.size(), "the job goes on"


@check
def a_traced_step_normalizes_over_the_ranks_of_any_later_epoch() -> None:
    layer = hvd.SyncBatchNormalization()
    step = tf.function(lambda inputs: layer(inputs, training=True))
    graph = step.get_concrete_function(tf.TensorSpec([4, 2])).graph
    # Also in a job of one rank, which another may join.
    assert "FarandoleAllreduce" in [op.type for op in graph.get_operations()]


@check
def batches_are_normalized_by_the_statistics_of_all() -> None:
    inputs, _ = batch(0)
    weight = numpy.arange(4, dtype=numpy.float32)
    alone, synchronized = tf.keras.layers.BatchNormalization(), hvd.SyncBatchNormalization()
    with tf.GradientTape() as tape:
        given = tf.constant(inputs)
        tape.watch(given)
        wanted = alone(given, training=True)
        loss = tf.reduce_sum(tf.square(wanted) * weight)
    gradient = tape.gradient(loss, given)
    with tf.GradientTape() as tape:
        given = tf.constant(rows(inputs))
        tape.watch(given)
        found = synchronized(given, training=True)
        loss = tf.reduce_sum(tf.square(found) * weight)
    numpy.testing.assert_allclose(found, rows(wanted), rtol=1e-3, atol=1e-5)
    numpy.testing.assert_allclose(tape.gradient(loss, given), rows(gradient.numpy()), rtol=1e-2, atol=1e-4)
    numpy.testing.assert_allclose(synchronized.moving_variance, alone.moving_variance, rtol=1e-4)


@check
def an_elastic_state_goes_back_and_is_given_to_all() -> None:
    net, optimizer = model(), tf.keras.optimizers.SGD(0.1, momentum=0.9)
    net.compile(optimizer, "mse")
    optimizer.build(net.trainable_variables)
    state = hvd.elastic.TensorFlowKerasState(net, optimizer, epoch=hvd.rank())
    before = net.get_weights()
    net.set_weights([each + hvd.rank() + 1 for each in before])
    state.epoch = 7
    state.restore()
    assert state.epoch == hvd.rank() and all((a == b).all() for a, b in zip(before, net.get_weights()))
    net.set_weights([each + hvd.rank() for each in before])
    state.sync()
    assert state.epoch == 0 and all((a == b).all() for a, b in zip(before, net.get_weights()))


@check.each(True, False)
def a_sessions_states_are_given_to_all_whatever_else_its_graph_has(has_resources: bool) -> None:
    """A worker that joins has made fewer ops in its graph than the others, and a session of a training may have a graph
    to which nothing can be added."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        kinds = [([1.0, 2.0], tf.float32), (3, tf.int64), (True, tf.bool), ([[4.0]], tf.bfloat16)]
        variables = [
            v1.get_variable(f"v{place}", initializer=tf.constant(value, dtype), use_resource=has_resources)
            for place, (value, dtype) in enumerate(kinds)
        ]
        session.run(v1.global_variables_initializer())
        roots = session.run(variables)
        if hvd.rank() == hvd.size() - 1:
            hvd.broadcast_variables(variables, 0)
        state = hvd.elastic.TensorFlowState(variables[:1], session=session, step=hvd.rank())
        other = hvd.elastic.TensorFlowState(variables[1:], session=session)
        graph.finalize()
        for _ in range(2):
            for variable, value in zip(variables, roots) if hvd.rank() else ():
                variable.load(value * 0, session)
            state.sync()
            other.sync()
            for found, wanted in zip(session.run(variables), roots):
                numpy.testing.assert_array_equal(found, wanted)
            assert state.step == 0


@check
def a_function_that_fails_for_itself_is_not_the_epochs_end() -> None:
    state = hvd.elastic.TensorFlowState([tf.Variable(1.0)], step=0)

    @hvd.elastic.run
    def train(_state: Any) -> Any:
        return tf.reshape(tf.zeros([3]), [2])

    expect_error(tf.errors.InvalidArgumentError, lambda: train(state))


@check
def wrong_arguments_are_named() -> None:
    expect_error(ValueError, lambda: hvd.DistributedOptimizer(3), "needs an optimizer")
    expect_error(
        ValueError,
        lambda: hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0),
        "gradient_predivide_factor",
    )
    expect_error(ValueError, lambda: hvd.SyncBatchNormalization(fused=True), "fused")
    expect_error(RuntimeError, lambda: hvd.broadcast_global_variables(0), "eager")


@check
def an_eager_backward_pass_is_a_section_of_the_program() -> None:
    weight = tf.Variable(2.0)

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = weight * weight
        return hvd.DistributedGradientTape(tape).gradient(loss, weight)

    with noted_sections() as seen:
        assert float(gradient()) == 4.0
        assert seen == ["[backward", "]"], seen
        assert float(tf.function(gradient)()) == 4.0
        assert seen == ["[backward", "]"], "a graph is no section: it runs its ops as they are ready"


@check.each("v1", "keras", "adasum")
def an_eager_step_is_a_section_of_the_program(kind: str) -> None:
    weight = tf.Variable(2.0)
    if kind == "keras":
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
    else:
        own = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        optimizer = hvd.DistributedOptimizer(own, op=hvd.Adasum if kind == "adasum" else hvd.Average)

    def step() -> None:
        if kind == "keras":
            optimizer.apply_gradients([(tf.constant(1.0), weight)])
        else:
            optimizer.apply_gradients(optimizer.compute_gradients(lambda: weight * weight, [weight]))

    with noted_sections() as seen:
        step()
        backward = [] if kind == "keras" else ["[backward", "]"]
        assert seen == [*backward, "[step", "]"], seen
        del seen[:]
        tf.function(step)()
        assert seen == [], seen
