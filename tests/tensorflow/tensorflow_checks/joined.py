"""Gradients of the others' operations beside a rank that has joined, eager and in tf.function."""

from typing import Any, Callable, List

import farandole.tensorflow as hvd
import tensorflow as tf
from harness import Checks

check = Checks()


def gradients_of(call: Callable[[Any], Any], rows: int) -> List[Any]:
    """Of a tensor with so many rows, whose results have the gradient rank + 1; eager and in a function."""

    def differentiate(given: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(call(given)) * (hvd.rank() + 1.0)
        return tape.gradient(loss, given)

    given = tf.ones([rows, 3])
    return [differentiate(given), tf.function(differentiate)(given)]


def expect_rows(gradients: List[Any], counts: List[int], values: List[float]) -> None:
    """Fails unless each gradient has so many rows of each value."""
    wanted = [value for count, value in zip(counts, values) for _ in range(count)]
    for gradient in gradients:
        assert gradient.shape == (len(wanted), 3) and gradient[:, 0].numpy().tolist() == wanted, (gradient, wanted)


def differentiate(ranks: List[int], root: int, process_set: Any) -> None:
    """Gradients of each operation that has rows, in a set of these ranks, the first of which has joined."""
    own = {"process_set": process_set}
    count, values = len(ranks), [0.0, *(rank + 1.0 for rank in ranks[1:])]
    splits = [position + 2 for position in range(count)]
    found = gradients_of(lambda given: hvd.alltoall(given, splits, name="places", **own)[0], sum(splits) + 1)
    expect_rows(found, [*splits, 1], [*values, 0.0])
    expect_rows(gradients_of(lambda given: hvd.alltoall(given, name="even", **own), 2 * count), [2] * count, values)
    for extra in (0, 1):
        rows, shares, name = 2 * count + extra, [2 + extra, *[2] * (count - 1)], f"places{extra}"
        found = gradients_of(lambda given, name=name: hvd.reducescatter(given, op=hvd.Sum, name=name, **own), rows)
        expect_rows(found, shares, [count * value for value in values])
        found = gradients_of(lambda given, name=name: hvd.scatter(given, root, name=name, **own), rows)
        expect_rows(found, shares, values if hvd.rank() == root else [0.0] * count)


@check
def gradients_are_at_the_places_of_their_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    if rank > 0:
        differentiate(list(range(size)), size - 1, hvd.global_process_set)
    hvd.join()


@check
def gradients_in_a_process_set_are_at_the_places_of_their_rows() -> None:
    if hvd.size() < 3:
        return
    pair = hvd.add_process_set([0, hvd.size() - 1])
    if hvd.rank() == hvd.size() - 1:
        differentiate([0, hvd.rank()], hvd.rank(), pair)
    hvd.join()
    hvd.remove_process_set(pair)


@check
def an_allgathers_gradient_has_the_ranks_own_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    pair = hvd.add_process_set([0, size - 1]) if size > 2 else None
    for process_set in [hvd.global_process_set, *([pair] if pair is not None else [])]:
        ranks = [member for member in process_set.ranks if member > 0]
        if rank not in ranks:
            continue
        name = f"own{len(ranks)}"

        def numbered(given: Any, name: str = name, process_set: Any = process_set) -> Any:
            gathered = hvd.allgather(given, name, process_set=process_set)
            return gathered * tf.cast(tf.range(tf.shape(gathered)[0])[:, tf.newaxis], tf.float32)

        # The mean over all of the set of (rank + 1) times the number of the row.
        factor, first = sum(member + 1.0 for member in ranks) / (len(ranks) + 1), 2.0 * ranks.index(rank)
        for gradient in gradients_of(numbered, 2):
            tf.debugging.assert_near(gradient[:, 0], [factor * first, factor * (first + 1)])
    hvd.join()
    if pair is not None:
        hvd.remove_process_set(pair)


@check
def a_root_that_has_joined_gives_no_gradients_back() -> None:
    given = tf.ones([2, 3])
    with tf.GradientTape() as tape:
        tape.watch(given)
        loss = tf.reduce_sum(hvd.gather(given, 0, name="given_up"))
    if hvd.rank() > 0:
        expect_rows([tape.gradient(loss, given)], [2], [0.0])
    hvd.join()
