"""Gradients that a rank lacks and another one has."""

from typing import Any, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks, expect_error

check = Checks()

v1 = tf.compat.v1

NAMES = ("a", "b", "c")


def variables() -> List[tf.Variable]:
    return [tf.Variable([1.0, 1.0], name=name) for name in NAMES]


def gradients_of(sources: List[tf.Variable], used: List[int], **terms: Any) -> List[Any]:
    """Of each: 10 * (rank + 1) where this rank uses it."""
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(sources[index]) for index in used) * (10.0 * (hvd.rank() + 1))
    return hvd.DistributedGradientTape(tape, **terms).gradient(loss, sources)  # type: ignore[no-any-return]


def mine() -> List[int]:
    """Rank 0 uses a, the others b, and all c."""
    return [0 if hvd.rank() == 0 else 1, 2]


def wanted() -> List[List[float]]:
    size = hvd.size()
    others = sum(10.0 * (rank + 1) for rank in range(1, size))
    return [[each / size] * 2 for each in (10.0, others, 10.0 + others)]


def as_lists(gradients: List[Any]) -> List[Any]:
    return [None if each is None else each.numpy().tolist() for each in gradients]


@check.each("alone", "grouped", "adasum")
def a_tape_sends_zeros_for_a_gradient_that_it_lacks(way: str) -> None:
    if hvd.size() != 2:
        return
    terms = {"alone": {}, "grouped": {"num_groups": 2}, "adasum": {"op": hvd.Adasum}}[way]
    found = as_lists(gradients_of(variables(), mine(), **terms))
    if way == "adasum":
        assert found[:2] == [[10.0, 10.0], [20.0, 20.0]], found
    else:
        assert found == wanted(), found
    assert as_lists(gradients_of(variables(), [0]))[1:] == [None, None]


@check.each("alone", "grouped")
def one_in_a_function_is_told(way: str) -> None:
    """Nothing is compared while a function is traced, as one rank may trace it alone."""
    if hvd.size() != 2:
        return
    sources, terms = variables(), {"num_groups": 2} if way == "grouped" else {}
    words = ("rank 0 has shape [0,2,", "where a rank has no gradient of one, give zeros")

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        return [each for each in gradients_of(sources, mine(), **terms) if each is not None]

    expect_error(tf.errors.FailedPreconditionError, step, *words)

    @tf.function  # type: ignore[untyped-decorator]
    def with_zeros() -> Any:
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(sources[index]) for index in mine()) * (10.0 * (hvd.rank() + 1))
        tape = hvd.DistributedGradientTape(tape, **terms)
        return tape.gradient(loss, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    assert as_lists(with_zeros()) == wanted()


@check.each("alone", "grouped")
def a_function_that_lacks_another_later_is_told(way: str) -> None:
    if hvd.size() != 2:
        return
    sources, terms = variables(), {"num_groups": 2} if way == "grouped" else {}

    def step(batch: tf.Tensor) -> Any:
        used = [0, 1, 2] if batch.shape[0] == 1 else mine()
        return [each for each in gradients_of(sources, used, **terms) if each is not None]

    step.__name__ = f"later_{way}"
    traced = tf.function(step)
    assert len(traced(tf.zeros([1]))) == 3
    expect_error(tf.errors.FailedPreconditionError, lambda: traced(tf.zeros([2])), "rank 0 has shape [0,2,")


@check
def gradients_of_embeddings_are_among_them() -> None:
    if hvd.size() != 2:
        return
    table, other = tf.Variable(tf.ones([4, 2]), name="table"), tf.Variable([1.0], name="other")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(other)
        if hvd.rank() == 1:
            loss += tf.reduce_sum(tf.gather(table, [3, 1]))
    found, _ = hvd.DistributedGradientTape(tape).gradient(loss, [table, other])
    dense = tf.convert_to_tensor(found).numpy()
    assert dense.tolist() == [[0.0, 0.0], [0.5, 0.5], [0.0, 0.0], [0.5, 0.5]], dense


@check
def a_variable_that_another_rank_does_not_know_is_named() -> None:
    if hvd.size() != 2:
        return
    sources = variables()[:2] if hvd.rank() == 0 else variables()[1:]
    used = [0, 1]
    words = ("a: rank 0 has a gradient of this variable, and rank 1 has none",)
    expect_error(ValueError, lambda: gradients_of(sources, used), *words)
    assert as_lists(gradients_of(variables(), [0, 1, 2]))[0] == [15.0, 15.0]


@check
def an_optimizer_of_v1_is_told() -> None:
    if hvd.size() != 2:
        return
    with tf.Graph().as_default(), v1.Session() as session:
        sources = [v1.get_variable(name, [2], initializer=v1.zeros_initializer()) for name in NAMES]
        loss = sum(tf.reduce_sum(sources[index]) for index in mine()) * (10.0 * (hvd.rank() + 1))
        step = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0)).minimize(loss, var_list=sources)
        session.run(v1.global_variables_initializer())
        expect_error(tf.errors.FailedPreconditionError, lambda: session.run(step), "rank 0 has shape [0,2,")
        assert session.run(sources)[2].tolist() == [0.0, 0.0]


def unnamed() -> List[tf.Variable]:
    """Variables of one name."""
    return [tf.Variable([0.0, 0.0]) for _ in range(2)]


@check.each("eager", "function")
def variables_of_one_name_that_are_left_out_are_not_mixed_up(way: str) -> None:
    """As many programs do. In a function nothing is compared: there it is told."""
    if hvd.size() != 2:
        return
    sources, mine = unnamed(), hvd.rank()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
    optimizer.build(sources)

    def step() -> None:
        optimizer.apply_gradients([(tf.constant([1.0, 1.0]) * (mine + 1.0), sources[mine])])

    if way == "function":
        expect_error(tf.errors.FailedPreconditionError, tf.function(step), "rank 0 has shape [0,1,")
        assert as_lists(sources) == [[0.0, 0.0]] * 2
    else:
        step()
        assert as_lists(sources) == [[-0.5, -0.5], [-1.0, -1.0]], as_lists(sources)


@check.each(1, 2)
def changes_that_adasum_combines_are_not_mixed_up(passes: int) -> None:
    """Each rank lacks a gradient of another variable, in each pass; one that no rank has changes nothing."""
    if hvd.size() != 2:
        return
    sources, counter = [*unnamed(), tf.Variable([0.0])], tf.Variable(0)
    optimizer = hvd.DistributedOptimizer(
        v1.train.GradientDescentOptimizer(1.0), op=hvd.Adasum, backward_passes_per_step=passes
    )
    for index in range(passes):
        chosen = (hvd.rank() + index) % 2
        gradients = [tf.constant([1.0, 1.0]) if place == chosen else None for place in range(2)]
        optimizer.apply_gradients([*zip(gradients, sources), (None, sources[2]), (None, counter)])
    assert as_lists(sources) == [[-1.0, -1.0], [-1.0, -1.0], [0.0]], as_lists(sources)


@check
def masks_do_not_travel() -> None:
    masked = numpy.ma.array([1.0, 2.0], mask=[False, True])
    expect_error(ValueError, lambda: hvd.allreduce(masked), "the array is masked")
    expect_error(ValueError, lambda: hvd.broadcast(masked, 0), "the array is masked")
    expect_error(ValueError, lambda: hvd.allreduce([masked, masked]), "the array is masked")


# Factors before and after, for which integers are truncated in other places.
FACTORS = ((1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.5, 2.0), (1.5, 1 / 3), (-0.5, 1.0))


@check.each(*((kind, op) for kind in ("int32", "int64", "uint8", "int8") for op in ("Sum", "Average")))
def integer_slices_become_what_dense_tensors_do(kind: str, op: str) -> None:
    """Also where an index comes twice, and in a graph."""
    values = tf.constant([[3 + hvd.rank()], [4], [3], [5]], kind)
    indices = tf.constant([0, 1, 0, 2 + hvd.rank()], tf.int64)
    dense = tf.math.unsorted_segment_sum(values, indices, 6)
    for before, after in FACTORS:
        if before < 0 and kind == "uint8":
            continue
        terms = {"op": getattr(hvd, op), "prescale_factor": before, "postscale_factor": after}
        wanted = hvd.allreduce(dense, **terms).numpy().ravel().tolist()

        def reduced(terms: Any = terms) -> tf.IndexedSlices:
            return hvd.allreduce(tf.IndexedSlices(values, indices, tf.constant([6, 1], tf.int64)), **terms)

        for call in (reduced, tf.function(reduced)):
            slices = call()
            assert slices.values.dtype == kind, slices.values.dtype
            found = tf.math.unsorted_segment_sum(slices.values, slices.indices, 6)
            assert found.numpy().ravel().tolist() == wanted, (before, after, found, wanted)


@check.each("nan", "inf")
def factors_of_slices_are_finite_numbers(factor: str) -> None:
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    for name in ("prescale_factor", "postscale_factor"):
        expect_error(ValueError, lambda name=name: hvd.allreduce(slices, **{name: float(factor)}), factor, "finite")
        expect_error(ValueError, lambda name=name: hvd.allreduce(slices, **{name: "a"}), f"{name} is a number, not 'a'")
    truths = tf.IndexedSlices(tf.constant([True]), tf.constant([0]), tf.constant([3]))
    assert hvd.allreduce(truths, op=hvd.Sum).values.numpy().tolist() == [True] * hvd.size()
    expect_error(ValueError, lambda: hvd.allreduce(truths), "average of bool")
