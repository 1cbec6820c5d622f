"""Arguments of tapes, optimizers and layers: groups, compression, local gradients, process sets; variables in place; Adasum."""

import contextlib
from typing import Any, Dict, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from farandole.tensorflow.gradient_exchange import GradientExchange
from harness import Checks, expect_error

from tensorflow_checks.passes import without_v2_behavior
from tensorflow_checks.training import BY_XLA, STEPS, assert_trained, batch, loss_of, model, rows

check = Checks()

v1 = tf.compat.v1


def taught(net: Any, way: str, options: Dict[str, Any]) -> Any:
    """The model after the steps of training by a tape."""
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(net.trainable_variables)

    def step(inputs: Any, targets: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(net, inputs, targets)
        tape = hvd.DistributedGradientTape(tape, **options)
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))

    run = step if way == "eager" else tf.function(step, jit_compile=way == "xla")
    for number in range(STEPS):
        run(*map(tf.constant, map(rows, batch(number))))
    return net


@check.each("eager", "function", *BY_XLA)
def variables_of_a_group_travel_together(way: str) -> None:
    net = model()
    kernels, biases = net.trainable_variables[0::2], net.trainable_variables[1::2]
    assert_trained(taught(net, way, {"groups": [kernels, biases[:1]]}))


@check
def a_groups_gradients_are_one_submission_in_a_graph() -> None:
    variables = [tf.Variable(tf.ones([2])) for _ in range(4)]

    def submissions(groups: Any) -> int:
        @tf.function
        def gradients() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.add_n([tf.reduce_sum(each) for each in variables])
            return hvd.DistributedGradientTape(tape, groups=groups).gradient(loss, variables)

        gradients()
        before = hvd.counters().submissions
        assert all(each.numpy().tolist() == [1.0, 1.0] for each in gradients())
        return hvd.counters().submissions - before

    alone = submissions(None)
    assert submissions([[variables[3], variables[0]], [variables[1]]]) == submissions(3) == alone * 3 // 4
    assert submissions([variables]) == alone // 4


@check.each("tape", "keras", "v1")
def gradients_travel_as_half_floats(what: str) -> None:
    """They lose what a half float cannot hold: 1 + 2^-12 becomes 1."""
    variable = tf.Variable([1.0])
    gradient = tf.constant([1.0 + 2.0**-12])
    options = {"compression": hvd.Compression.fp16, "op": hvd.Sum}
    if what == "tape":
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * gradient)
        found = hvd.DistributedGradientTape(tape, **options).gradient(loss, variable)
    else:
        keras = what == "keras"
        inner = tf.keras.optimizers.SGD(1.0) if keras else v1.train.GradientDescentOptimizer(1.0)
        optimizer = hvd.DistributedOptimizer(inner, **options)
        pairs = (
            [(gradient, variable)] if keras else optimizer.compute_gradients(lambda: variable * gradient, [variable])
        )
        optimizer.apply_gradients(pairs)
        found = 1.0 - variable
    assert found.dtype == tf.float32 and found.numpy().tolist() == [float(hvd.size())]


@check.each("tape", "keras", "v1", "keras, two passes", "v1, two passes")
def local_gradients_are_scaled_unless_told_otherwise(what: str) -> None:
    for scales in (True, False):
        shared, local = tf.Variable([0.0]), tf.Variable([0.0])
        mine = tf.constant([hvd.rank() + 1.0])
        passes = 2 if "two" in what else 1
        if what == "tape":
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((shared + local) * mine)
            tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scales)
            tape.register_local_source(local)
            found = tape.gradient(loss, [shared, local])
        else:
            keras = "keras" in what
            inner = tf.keras.optimizers.SGD(1.0) if keras else v1.train.GradientDescentOptimizer(1.0)
            options = {"scale_local_gradients": scales, "backward_passes_per_step": passes}
            optimizer = hvd.DistributedOptimizer(inner, **options)
            optimizer.register_local_var(local)
            for _ in range(passes):
                pairs = [(mine, shared), (mine, local)]
                if not keras:
                    pairs = optimizer.compute_gradients(lambda: (shared + local) * mine, [shared, local])  # noqa: B023
                optimizer.apply_gradients(pairs)
            found = [-shared, -local]
        mean = sum(range(1, hvd.size() + 1)) / hvd.size()
        own = (hvd.rank() + 1.0) / (hvd.size() if scales else 1)
        numpy.testing.assert_allclose(
            numpy.ravel([each.numpy() for each in found]), [mean * passes, own * passes], rtol=1e-6
        )


@check.each("dense", "rows")
def a_local_gradient_that_is_not_finite_is_told_to_all(way: str) -> None:
    """By a shared one, also where that has no rows. Where the loss is scaled, all ranks leave out the step then."""
    shared, local = tf.Variable([[0.0], [0.0]]), tf.Variable([0.0])
    exchange = GradientExchange()
    exchange.register_local([local])
    mine = tf.IndexedSlices(tf.zeros([0, 1]), tf.zeros([0], tf.int64), [2, 1]) if way == "rows" else tf.zeros([2, 1])
    for skips, value, is_finite in ((True, 1.0, True), (False, numpy.inf, True), (True, numpy.inf, False)):
        exchange.skips_together = skips
        own = tf.constant([value if hvd.rank() == 0 else 1.0])
        reduced = tf.convert_to_tensor(exchange.reduce([mine, own], [shared, local])[0])
        assert numpy.isfinite(reduced.numpy()).all() == is_finite, reduced


@check
def local_and_global_gradients_come_in_two_lists() -> None:
    shared, local = tf.Variable([0.0]), tf.Variable([0.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((shared + 2.0 * local) * (hvd.rank() + 1.0))
    tape = hvd.DistributedGradientTape(tape)
    tape.register_local_source(local)
    own, whole = tape.get_local_and_global_gradients(loss, [shared, local], use_generic_names=True)
    assert [variable is local for variable, _ in own] == [True] and [variable is shared for variable, _ in whole] == [
        True
    ]
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    numpy.testing.assert_allclose(
        [own[0][1][0], whole[0][1][0]], [2.0 * (hvd.rank() + 1.0) / hvd.size(), mean], rtol=1e-6
    )


@check.each("tape", "tape in a function", "keras", "v1", "sync_batch_norm", "variables", "in place")
def ranks_of_a_process_set_share_what_they_do(what: str) -> None:
    """The first and the last rank are the set, and another one is none of it."""
    if hvd.size() < 3:
        return
    pair = hvd.add_process_set([0, hvd.size() - 1])
    if pair.included():
        members = pair.ranks
        variable = tf.Variable([float(hvd.rank())])
        mean = sum(members) / len(members)
        mine = tf.constant([float(hvd.rank())])
        if what.startswith("tape"):

            def gradient() -> Any:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(variable * mine)
                return hvd.DistributedGradientTape(tape, process_set=pair).gradient(loss, variable)

            assert (tf.function(gradient) if "function" in what else gradient)().numpy().tolist() == [mean]
        elif what in ("keras", "v1"):
            inner = tf.keras.optimizers.SGD(1.0) if what == "keras" else v1.train.GradientDescentOptimizer(1.0)
            optimizer = hvd.DistributedOptimizer(inner, process_set=pair)
            pairs = [(mine, variable)]
            if what == "v1":
                pairs = optimizer.compute_gradients(lambda: variable * mine, [variable])
            optimizer.apply_gradients(pairs)
            assert variable.numpy().tolist() == [hvd.rank() - mean]
        elif what == "sync_batch_norm":
            whole = numpy.concatenate([numpy.random.RandomState(rank).rand(5, 3) for rank in members]).astype("float32")
            wanted = tf.keras.layers.BatchNormalization()(whole, training=True)
            begin = 5 * members.index(hvd.rank())
            found = hvd.SyncBatchNormalization(process_set=pair)(whole[begin : begin + 5], training=True)
            numpy.testing.assert_allclose(found, wanted[begin : begin + 5], rtol=1e-3, atol=1e-4)
        else:
            hvd.broadcast_variables([variable], hvd.size() - 1, pair, inplace=what == "in place")
            assert variable.numpy().tolist() == [hvd.size() - 1.0]
    hvd.barrier()
    hvd.remove_process_set(pair)


def of_all_kinds(rank: int) -> List[Any]:
    """Values of several shapes and types: those of a rank."""
    return [
        numpy.full(3, rank, "float32"),
        numpy.int64(rank),
        numpy.full([2, 0], rank, "float16"),
        numpy.bool_(rank % 2),
    ]


@check.each("eager", "function", "graph", "graph of references")
def variables_are_broadcast_in_place(way: str) -> None:
    root, values = hvd.size() - 1, of_all_kinds(hvd.rank())
    if way in ("eager", "function"):
        variables = [tf.Variable(each) for each in values]
        call = tf.function(hvd.broadcast_) if way == "function" else hvd.broadcast_
        results = [each.numpy() for each in call(variables, root, name="in_place")]
        found = [each.numpy() for each in variables]
    else:
        with tf.Graph().as_default(), v1.Session() as session:
            use_resource = way == "graph"
            variables = [v1.Variable(each, use_resource=use_resource) for each in values]
            give = hvd.broadcast_(variables, root)
            session.run([variable.initializer for variable in variables])
            results = session.run(give)
            found = session.run(variables)
    for mine, result, wanted in zip(found, results, of_all_kinds(root)):
        assert mine.dtype == wanted.dtype and (mine == wanted).all() and (result == wanted).all()


@check
def variables_that_are_broadcast_in_place_are_checked_first() -> None:
    if hvd.size() == 1:
        return
    variables = [tf.Variable([1.0]) for _ in range(1 if hvd.rank() == 0 else 2)]
    expect_error(ValueError, lambda: hvd.broadcast_variables(variables, 0, inplace=True), "no such tensor")
    wrong = tf.Variable(tf.ones([hvd.rank() + 1]))
    expect_error(tf.errors.FailedPreconditionError, lambda: hvd.broadcast_([wrong], 0), "shape [1]", "shape [2]")
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [v1.get_variable(f"v{i}", initializer=float(hvd.rank())) for i in range(2)]
        give = hvd.broadcast_variables(variables, 0, inplace=True)
        session.run([variable.initializer for variable in variables])
        session.run(give)
        assert session.run(variables) == [0.0, 0.0]


@check
def an_object_function_broadcasts_what_it_is_given() -> None:
    root = hvd.size() - 1
    give = hvd.broadcast_object_fn(root_rank=root, name="objects")
    for number in range(2):
        assert give({"rank": hvd.rank(), "number": number}) == {"rank": root, "number": number}
    with tf.Graph().as_default(), v1.Session() as session:
        assert hvd.broadcast_object_fn(0, session)([hvd.rank()]) == [0]


def combine(a: Any, b: Any) -> Any:
    """Adasum of two."""
    ab, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return (1 - ab / (2 * aa) if aa else 1) * a + (1 - ab / (2 * bb) if bb else 1) * b


def adasum(tensors: List[Any]) -> Any:
    """Of neighbours, and of those again; where their number is no power of two, first of as many pairs as make it one."""
    power = 1 << (len(tensors).bit_length() - 1)
    pairs = 2 * (len(tensors) - power)
    tensors = [combine(tensors[i], tensors[i + 1]) for i in range(0, pairs, 2)] + tensors[pairs:]
    while len(tensors) > 1:
        tensors = [combine(tensors[i], tensors[i + 1]) for i in range(0, len(tensors), 2)]
    return tensors[0]


def numbers_of(rank: int, step: int = 0) -> numpy.ndarray:
    """The gradient of a rank; the ranks have something in common, so that the products count."""
    return numpy.random.RandomState(100 * step + rank).randn(5) + 0.5


@check.each("eager", "function", "graph", *BY_XLA)
def adasum_is_its_formula(way: str) -> None:
    wanted = adasum([numbers_of(rank) for rank in range(hvd.size())])
    mine = tf.constant(numbers_of(hvd.rank()))
    if way == "graph":
        with tf.Graph().as_default(), v1.Session() as session:
            found = session.run(hvd.grouped_allreduce([tf.constant(mine.numpy())] * 2, op=hvd.Adasum))[1]
    else:
        step = lambda x: hvd.allreduce(x, op=hvd.Adasum)  # noqa: E731
        found = (step if way == "eager" else tf.function(step, jit_compile=way == "xla"))(mine)
    numpy.testing.assert_allclose(found, wanted, rtol=1e-9)


@check
def a_keras_optimizer_combines_gradients_by_adasum() -> None:
    variable = tf.Variable(numpy.zeros(5))
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.5), op=hvd.Adasum)
    optimizer.apply_gradients([(tf.constant(numbers_of(hvd.rank())), variable)])
    wanted = -0.5 * adasum([numbers_of(rank) for rank in range(hvd.size())])
    numpy.testing.assert_allclose(variable.numpy(), wanted, rtol=1e-6)


class LocalStep:
    """A rank's optimizer in NumPy: the change of its variable by a gradient."""

    def __init__(self, kind: str) -> None:
        self.kind, self.steps = kind, 0
        self.first, self.second = numpy.zeros(5), numpy.zeros(5)

    def change(self, gradient: numpy.ndarray) -> numpy.ndarray:
        self.steps += 1
        if self.kind == "momentum":
            self.first = 0.9 * self.first + gradient
            return -0.1 * self.first
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        rate = 0.1 * numpy.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        return -rate * self.first / (numpy.sqrt(self.second) + 1e-8)


def changed_by_adasum(kind: str, steps: int, passes: int) -> List[numpy.ndarray]:
    """The variable of this rank after each step, by the formula: the ranks' own steps, combined after so many."""
    optimizers = [LocalStep(kind) for _ in range(hvd.size())]
    start, found = numpy.ones(5), []
    values = [start] * hvd.size()
    for step in range(steps):
        for rank, optimizer in enumerate(optimizers):
            # The gradient of numbers * value^2 / 2.
            values[rank] = values[rank] + optimizer.change(numbers_of(rank, step) * values[rank])
        if (step + 1) % passes == 0:
            start = start + adasum([value - start for value in values])
            values = [start] * hvd.size()
        found.append(values[hvd.rank()])
    return found


def v1_optimizer(kind: str) -> Any:
    return v1.train.MomentumOptimizer(0.1, 0.9) if kind == "momentum" else v1.train.AdamOptimizer(0.1)


@check.each(*((kind, passes) for kind in ("momentum", "adam") for passes in (1, 2)))
def a_v1_optimizer_combines_the_changes_of_own_steps(kind: str, passes: int) -> None:
    wanted = changed_by_adasum(kind, 4, passes)
    for behavior in (contextlib.nullcontext, without_v2_behavior):
        with behavior(), tf.Graph().as_default(), v1.Session() as session:
            variable = v1.Variable(numpy.ones(5), name="trained")
            assert hasattr(variable, "handle") == (behavior is contextlib.nullcontext)
            given = v1.placeholder(tf.float64, [5])
            global_step = v1.train.get_or_create_global_step()
            options = {"op": hvd.Adasum, "backward_passes_per_step": passes}
            optimizer = hvd.DistributedOptimizer(v1_optimizer(kind), **options)
            step = optimizer.minimize(tf.reduce_sum(given * variable**2 / 2), global_step)
            session.run(
                [v1.global_variables_initializer(), *([v1.local_variables_initializer()] if passes > 1 else [])]
            )
            for number in range(4):
                session.run(step, {given: numbers_of(hvd.rank(), number)})
                numpy.testing.assert_allclose(session.run(variable), wanted[number], rtol=1e-5, atol=1e-6)
            assert session.run(global_step) == 4
            slots = optimizer.get_slot_names()
            assert slots == (["momentum"] if kind == "momentum" else ["m", "v"]), slots


@check.each(1, 2)
def a_v1_optimizer_combines_in_eager_code_and_keeps_local_variables(passes: int) -> None:
    wanted = changed_by_adasum("momentum", 4, passes)
    variable, local = tf.Variable(numpy.ones(5)), tf.Variable(numpy.ones(5))
    optimizer = hvd.DistributedOptimizer(v1_optimizer("momentum"), op=hvd.Adasum, backward_passes_per_step=passes)
    optimizer.register_local_var(local)
    alone, own = LocalStep("momentum"), numpy.ones(5)
    for number in range(4):
        mine = numbers_of(hvd.rank(), number)
        loss = lambda: tf.reduce_sum(mine * (variable**2 + local**2) / 2)  # noqa: E731, B023
        optimizer.apply_gradients(optimizer.compute_gradients(loss, [variable, local]))
        own = own + alone.change(mine * own)
        numpy.testing.assert_allclose(variable.numpy(), wanted[number], rtol=1e-5, atol=1e-6)
        numpy.testing.assert_allclose(local.numpy(), own, rtol=1e-5, atol=1e-6)


@check
def adasum_refuses_means_of_passes() -> None:
    for inner in (v1.train.GradientDescentOptimizer(1.0), tf.keras.optimizers.SGD(1.0)):
        options = {"op": hvd.Adasum, "backward_passes_per_step": 2, "average_aggregated_gradients": True}
        expect_error(ValueError, lambda: hvd.DistributedOptimizer(inner, **options), "average_aggregated_gradients")  # noqa: B023


@check
def tensors_in_a_gpu_are_told_of_once() -> None:
    """By an imitation: this TensorFlow has none."""
    import warnings

    from farandole.tensorflow import placement

    real = placement.has_gpus, placement.is_on_host
    for is_graph in (False, True):
        placement._has_told = False
        placement.has_gpus, placement.is_on_host = (lambda: True), (lambda _tensor: False)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call = tf.function(hvd.allgather) if is_graph else hvd.allgather
                for _ in range(2):
                    call(tf.ones([1]))
                hvd.broadcast_variables([tf.Variable(1.0)], 0)
            told = [str(each.message) for each in caught if "travel through the host's memory" in str(each.message)]
            assert len(told) == 1, told
        finally:
            placement.has_gpus, placement.is_on_host = real
    assert placement.is_on_host(tf.ones([1])) and not placement.has_gpus()
