"""Ops that overlap, gradients, memory, and v1's graphs and sessions."""

import functools
import random
from typing import Any, Callable, List, Tuple

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks

from tensorflow_checks.ways import in_session

check = Checks()
v1 = tf.compat.v1


def in_an_order_that_is_fed(count: int, stages: int) -> Tuple[Any, List[Any]]:
    """A placeholder with the stage of each of so many tensors, and the tensors: those of a stage are ready when all of the
    stages before it have begun."""
    chosen = v1.placeholder(tf.int32, [count])
    begun: List[Any] = []
    for stage in range(stages):
        with tf.control_dependencies(begun[-1:]):
            begun.append(tf.identity(tf.constant(stage)))
    is_at = [tf.unstack(row) for row in tf.unstack(tf.equal(chosen[:, tf.newaxis], tf.range(stages)[tf.newaxis]))]
    tensors = []
    for place in range(count):
        ways = [tf.raw_ops.Switch(data=at, pred=pred).output_true for at, pred in zip(begun, is_at[place])]
        with tf.control_dependencies([tf.raw_ops.Merge(inputs=ways).output]):
            tensors.append(tf.identity(tf.fill([10], float(place + hvd.rank()))))
    return chosen, tensors


@check.each(1, 2)
def a_hundred_tensors_in_any_order_end_on_few_threads(threads: int) -> None:
    """Each rank has another order in each step."""
    steps = 1000 if hvd.size() == hvd.local_size() == 2 else 20
    config = v1.ConfigProto(
        inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1, use_per_session_threads=True
    )
    shuffled = random.Random(hvd.rank())
    with tf.Graph().as_default() as graph:
        chosen, tensors = in_an_order_that_is_fed(100, 10)
        reduced = [hvd.allreduce(tensor, op=hvd.Sum, name=f"tensor.{place}") for place, tensor in enumerate(tensors)]
        with v1.Session(graph=graph, config=config) as session:
            for _ in range(steps):
                results = session.run(reduced, {chosen: [shuffled.randrange(10) for _ in range(100)]})
                for place, result in enumerate(results):
                    assert result.tolist() == [sum(place + r for r in range(hvd.size()))] * 10


@check
def a_functions_ops_are_not_ordered_as_written() -> None:
    order = [0, 1] if hvd.rank() % 2 == 0 else [1, 0]
    size = hvd.size()
    mine = {"rank 0 alone": 1 if hvd.rank() == 0 else 0, "each": 1}
    # The call, and how many times its sum is that of what this rank gives.
    calls: List[Tuple[Callable[..., Any], float]] = [
        (functools.partial(hvd.allreduce, op=hvd.Sum), size),
        (hvd.allgather, size),
        (functools.partial(hvd.broadcast, root_rank=0), mine["each"]),
        (functools.partial(hvd.reducescatter, op=hvd.Sum), 1),
        (lambda tensor, name: hvd.alltoall(tensor, name=name), mine["each"]),
        (functools.partial(hvd.gather, root_rank=0), size * mine["rank 0 alone"]),
        (functools.partial(hvd.scatter, root_rank=0), 1 / size),
    ]
    for number, (call, times) in enumerate(calls):

        @tf.function
        def step(value: Any, number: int = number, call: Callable[..., Any] = call) -> Any:
            results = {place: call(value * (place + 1), name=f"crossed.{number}.{place}") for place in order}
            return [tf.reduce_sum(results[place]) for place in (0, 1)]

        for _ in range(20):
            first, second = step(tf.ones([size]))
            assert (first.numpy(), second.numpy()) == (size * times, 2 * size * times), (number, first, second)


@check
def a_graph_says_that_ranks_have_other_numbers_of_variables() -> None:
    if hvd.size() == 1:
        return
    last = hvd.rank() == hvd.size() - 1
    for more in (1, -2):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = [tf.compat.v1.get_variable(f"v{i}", initializer=1.0) for i in range(2 + more * last)]
            give = hvd.broadcast_global_variables(0)
            session.run([variable.initializer for variable in variables])
            try:
                session.run(give)
            except tf.errors.InvalidArgumentError as error:
                assert f"the ranks in order have] [{' '.join(['2'] * (hvd.size() - 1))} {2 + more}]" in str(error), (
                    error
                )
            else:
                raise AssertionError("ranks with other numbers of variables went on")
    assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum).numpy() == hvd.size()


@check
def equal_calls_are_neither_merged_nor_folded() -> None:
    before = hvd.counters().submissions

    @tf.function
    def step() -> Any:
        for _ in range(5):
            total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum)
        return total

    assert step().numpy() == hvd.size()
    assert hvd.counters().submissions == before + 5


@check
def the_iterations_of_a_loop_share_a_name() -> None:
    @tf.function
    def loop() -> Any:
        total = tf.constant(0.0)
        for _ in tf.range(50):
            total += hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="in_a_loop")
        return total

    assert loop().numpy() == 50 * hvd.size()


def address(tensor: tf.Tensor) -> int:
    """Where an eager tensor's elements are: _numpy() is a view of them, numpy() a copy."""
    return tensor._numpy().__array_interface__["data"][0]


@check
def an_output_takes_the_memory_of_an_input_that_nobody_else_holds() -> None:
    seen: List[int] = []

    @tf.function
    def chain(given: Any) -> Any:
        made = given + 1.0
        looked = tf.py_function(lambda tensor: seen.append(address(tensor)), [made], [])
        with tf.control_dependencies([looked]):
            first = hvd.allreduce(made, op=hvd.Sum)
        return hvd.allreduce(first, op=hvd.Sum)

    result = chain(tf.zeros([1 << 18]))
    assert result.numpy()[0] == hvd.size() ** 2
    assert seen == [address(result)]


@check
def an_input_that_somebody_else_holds_stays_as_it_is() -> None:
    given = tf.fill([1 << 18], 2.0)
    before = address(given)
    result = hvd.allreduce(given, op=hvd.Sum)
    assert address(result) != before == address(given)
    assert given.numpy()[0] == 2.0 and result.numpy()[0] == 2.0 * hvd.size()


@check
def gradients_are_horovods() -> None:
    size, rank = hvd.size(), hvd.rank()
    x = tf.Variable(tf.fill([size, 2], float(rank + 1)))
    total = sum(range(1, size + 1))

    def gradient(call: Any, weight: float) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(x) * weight)
        return tape.gradient(loss, x)

    def in_graph(call: Any, weight: float) -> Any:
        return in_session(lambda t: v1.gradients(tf.reduce_sum(call(t) * weight), t)[0], tf.convert_to_tensor(x))

    ways = (gradient, tf.function(gradient), in_graph)
    mine = float(rank + 1)
    rows = [
        (lambda t: hvd.allreduce(t, op=hvd.Sum), total),
        (lambda t: hvd.allreduce(t, op=hvd.Average), total / size),
        (lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=0.5), total * 0.5),
        (lambda t: hvd.grouped_allreduce([t, t], op=hvd.Sum)[1], total),
        (hvd.allgather, total / size),
        (lambda t: hvd.broadcast(t, 0), total / size if rank == 0 else 0.0),
    ]
    for call, wanted in rows:
        for way in ways:
            tf.debugging.assert_near(way(call, mine), tf.fill([size, 2], float(wanted)))
    for way in ways:
        found = way(lambda t: hvd.reducescatter(t, op=hvd.Sum), mine)
        tf.debugging.assert_near(found[:, 0], tf.constant([float(size * (r + 1)) for r in range(size)]))
        found = way(lambda t: hvd.alltoall(t, [1] * size)[0], mine)
        tf.debugging.assert_near(found[:, 0], tf.constant([float(r + 1) for r in range(size)]))
        # The root weighs all rows; of a scatter each rank weighs its own row of the root's.
        found = way(lambda t: hvd.gather(t, 0), mine)
        tf.debugging.assert_near(found, tf.ones([size, 2]))
        found = way(lambda t: hvd.scatter(t, 0), mine)
        wanted = [float(r + 1) if rank == 0 else 0.0 for r in range(size)]
        tf.debugging.assert_near(found[:, 0], tf.constant(wanted))


@check
def a_session_trains_with_the_hook_and_the_optimizer() -> None:
    with tf.Graph().as_default():
        v1.set_random_seed(hvd.rank())
        weights = v1.get_variable("weights", initializer=tf.random.normal([4, 1], seed=hvd.rank()), use_resource=True)
        inputs = tf.constant(numpy.random.RandomState(hvd.rank()).rand(8, 4), tf.float32)
        loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - 1.0))
        v1.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1))
        step = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        hooks = [hvd.BroadcastGlobalVariablesHook(0)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            losses = [session.run([loss, step])[0] for _ in range(10)]
            trained = session.run(weights)
    assert losses[-1] < losses[0]
    for other in hvd.allgather_object(trained):
        assert (other == trained).all()
