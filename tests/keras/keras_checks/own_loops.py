"""Loops of a program's own: optimizers that are given some of their variables, in any order, and gradients of any memory."""

from typing import Any, List, Optional, Sequence

import numpy
from harness import Checks, expect_error, noted_sections

from keras_checks.chosen import BACKEND, IS_LEGACY, hvd, keras
from keras_checks.presence import tensor, values_of
from keras_checks.training import assert_close, compiled, model, own, train, trained_alone

check = Checks()


def variables(*names: str) -> List[Any]:
    if IS_LEGACY:
        import tensorflow as tf

        return [tf.Variable([0.0, 0.0], name=name) for name in names]
    return [keras.Variable(numpy.zeros(2, "float32"), name=name) for name in names]


def built(trained: List[Any], optimizer: Any = None, **terms: Any) -> Any:
    made = hvd.DistributedOptimizer(optimizer or keras.optimizers.SGD(1.0), **terms)
    made.build(trained)
    return made


def apply(optimizer: Any, given: Sequence[Optional[float]], trained: List[Any]) -> None:
    """As many programs do: without the variables that have no gradient."""
    pairs = [(tensor(each), variable) for each, variable in zip(given, trained) if each is not None]
    optimizer.apply_gradients(pairs)


@check.each("other names", "one name")
def gradients_that_are_left_out_are_zeros(way: str) -> None:
    if hvd.size() != 2:
        return
    trained = variables(*("a", "b") if way == "other names" else ("w", "w"))
    optimizer = built(trained)
    for step in range(1, 3):
        apply(optimizer, [2.0, None] if hvd.rank() == 0 else [None, 4.0], trained)
        assert values_of(trained) == [-1.0 * step, -2.0 * step]


@check.each("built", "passes", "scaled")
def a_rank_that_leaves_out_all_gradients_takes_part(way: str) -> None:
    """As in a batch whose loss is a constant."""
    if hvd.size() != 2 or (way == "scaled" and BACKEND not in ("tensorflow", "torch")):
        return
    trained = variables("a", "b")
    inner = keras.optimizers.SGD(1.0)
    if way == "scaled":
        inner = keras.optimizers.LossScaleOptimizer(inner, initial_scale=1.0)
    optimizer = built(trained, inner, **({"backward_passes_per_step": 2} if way == "passes" else {}))
    for step in range(2):
        for number in range(2):
            apply(optimizer, [2.0, 4.0] if hvd.rank() == number else [None, None], trained)
            count = 2 * step + (number + 1 if way != "passes" else 2 * number)
            assert values_of(trained) == [-1.0 * count, -2.0 * count], values_of(trained)


@check
def gradients_that_all_ranks_leave_out_change_nothing() -> None:
    trained = variables("a", "b")
    optimizer = built(trained, keras.optimizers.SGD(1.0, momentum=0.5))
    for _ in range(2):
        apply(optimizer, [None, None], trained)
    apply(optimizer, [1.0, 1.0], trained)
    before = values_of(trained)
    apply(optimizer, [None, None], trained)
    assert values_of(trained) == before == [-1.0, -1.0]
    if not IS_LEGACY:
        optimizer.apply([])
    not_built = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    own_variables = built(trained)
    for each in trained:
        own_variables.register_local_var(each)
    if hvd.rank() == 0:  # there is nothing that another rank could give
        apply(not_built, [None, None], trained)
        apply(own_variables, [None, None], trained)


@check
def a_step_without_gradients_on_any_rank_is_none_whoever_left_out_all_before() -> None:
    """Zeros would move variables by their momentum."""
    if hvd.size() != 2:
        return
    trained = variables("a", "b")
    optimizer = built(trained, keras.optimizers.SGD(1.0, momentum=0.5))
    for number in range(2):
        apply(optimizer, [2.0, 4.0] if hvd.rank() == number else [None, None], trained)
    before = values_of(trained)
    apply(optimizer, [None, None], trained)
    assert values_of(trained) == before, (values_of(trained), before)
    apply(optimizer, [2.0, 4.0], trained)
    assert values_of(trained) != before


@check
def a_step_of_nones_on_all_ranks_is_kerass_error() -> None:
    """Each rank has lacked a gradient before, and has sent zeros. They would move the variables by their momentum."""
    trained, rank = variables("a", "b"), hvd.rank()
    optimizer = built(trained, keras.optimizers.SGD(1.0, momentum=0.5))
    gradients = [tensor(2.0) if index == rank % 2 else None for index in range(2)]
    optimizer.apply_gradients(list(zip(gradients, trained)))
    before = values_of(trained)
    assert before[0] < 0, before
    nones = [(None, each) for each in trained]
    expect_error(ValueError, lambda: optimizer.apply_gradients(nones), "No gradients provided")
    assert values_of(trained) == before, (before, values_of(trained))


@check
def a_pass_without_gradients_counts() -> None:
    trained = variables("a", "b")
    optimizer = built(trained, backward_passes_per_step=2)
    apply(optimizer, [None, None], trained)
    apply(optimizer, [0.5, None], trained)
    assert values_of(trained) == [-0.5, 0.0]


@check
def variables_in_another_order_are_the_same() -> None:
    if hvd.size() != 2:
        return
    trained = variables("w", "w")
    optimizer = built(trained)
    backwards = hvd.rank() == 1
    apply(optimizer, [4.0, 2.0][:: -1 if backwards else 1], trained[:: -1 if backwards else 1])
    assert values_of(trained) == [-4.0, -2.0]


@check.each("sums", "means", "three")
def passes_of_other_variables_are_not_mixed_up(way: str) -> None:
    trained = variables("w", "w")
    count = 3 if way == "three" else 2
    optimizer = built(trained, backward_passes_per_step=count, average_aggregated_gradients=way == "means")
    for _ in range(2):
        apply(optimizer, [0.5, None], trained)
        apply(optimizer, [None, 0.25], trained)
        if way == "three":
            apply(optimizer, [0.5, 0.25], trained)
    factor = {"sums": 1.0, "means": 0.5, "three": 2.0}[way]
    assert values_of(trained) == [-1.0 * factor, -0.5 * factor], values_of(trained)


@check
def passes_of_legacy_optimizers_are_not_mixed_up() -> None:
    """They get new variables at any time."""
    if not IS_LEGACY:
        return
    trained = variables("a", "b")
    optimizer = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(1.0), backward_passes_per_step=2)
    apply(optimizer, [0.5, None], trained)
    apply(optimizer, [None, 0.25], trained)
    assert values_of(trained) == [-0.5, -0.25]


@check
def one_optimizer_steps_two_models_in_turn() -> None:
    """If a rank has lacked a gradient of the one, momentum does not move it in a step of the other."""
    if hvd.size() != 2:
        return
    one, two = variables("a", "b"), variables("c", "d")
    optimizer = built([*one, *two], keras.optimizers.SGD(1.0, momentum=0.5))
    for _ in range(2):
        apply(optimizer, [2.0, 2.0] if hvd.rank() == 0 else [2.0, None], one)
        before = values_of(one)
        apply(optimizer, [1.0, 1.0], two)
        assert values_of(one) == before
    assert values_of(two) == [-2.5, -2.5] and values_of(one) == [-5.0, -2.5], values_of([*one, *two])


@check
def steps_of_local_variables_need_no_other_rank() -> None:
    trained = variables("a", "b")
    optimizer = built(trained)
    optimizer.register_local_var(trained[1])
    if hvd.rank() == 0:
        apply(optimizer, [None, 1.0], trained)
        assert values_of(trained)[1] < 0.0
    apply(optimizer, [1.0, None], trained)
    assert values_of(trained)[0] == -1.0


def memory(way: str) -> List[Any]:
    """Gradients of 1 and 2 for rank 0, of 2 and 4 for rank 1, in memory that they share, as each can."""
    import torch

    number = hvd.rank() + 1.0
    if way == "expanded":
        return [torch.full((1,), factor * number).expand(ELEMENTS) for factor in (1, 2)]
    if way == "one tensor" and hvd.rank() == 0:
        return [torch.full((ELEMENTS,), number)] * 2
    if way == "interleaved":
        both = torch.stack([torch.full((ELEMENTS,), number), torch.full((ELEMENTS,), 2 * number)], 1)
        return [both[:, 0], both[:, 1]]
    if way == "slices" and hvd.rank() == 0:
        whole = torch.full((ELEMENTS + 10,), number)
        return [whole[:ELEMENTS], whole[-ELEMENTS:]]
    return [torch.full((ELEMENTS,), factor * number) for factor in (1, 2)]


ELEMENTS = 4096


@check.each("expanded", "one tensor", "slices", "interleaved")
def gradients_that_share_memory_are_reduced_once(way: str) -> None:
    """Rank 0 alone may have such."""
    if BACKEND != "torch":
        return
    trained = [keras.Variable(numpy.zeros(ELEMENTS, "float32"), name=name) for name in "ab"]
    size = hvd.size()
    for terms in ({}, {"compression": hvd.Compression.fp16}, {"op": hvd.Sum}):
        for variable in trained:
            variable.assign(numpy.zeros(ELEMENTS, "float32"))
        optimizer = built(trained, **terms)
        optimizer.apply(memory(way), trained)
        firsts = [rank + 1.0 for rank in range(size)]
        seconds = [2 * each for each in firsts]
        if way in ("one tensor", "slices"):
            seconds[0] = firsts[0]
        for variable, numbers in zip(trained, (firsts, seconds)):
            wanted = sum(numbers) / (1 if "op" in terms else size)
            found = keras.ops.convert_to_numpy(variable)
            assert numpy.allclose(found, -wanted, rtol=1e-3), (way, terms, found, wanted)


@check
def a_model_is_trained_by_gradients_that_autograd_gives_twice() -> None:
    if BACKEND != "torch":
        return
    import torch

    trained = [keras.Variable(numpy.zeros(2048, "float32"), name=name) for name in "ab"]
    optimizer = built(trained)
    loss = (trained[0].value + trained[1].value).sum() * (hvd.rank() + 1.0)
    gradients = torch.autograd.grad(loss, [each.value for each in trained])
    optimizer.apply(list(gradients), trained)
    mean = (hvd.size() + 1) / 2
    for variable in trained:
        assert (keras.ops.convert_to_numpy(variable) == -mean).all()


def scaled() -> Any:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), initial_scale=2.0)


def numbered() -> Any:
    class Own(keras.optimizers.SGD):
        """A program's own, without a name: Keras numbers it."""

        def __init__(self, learning_rate: float = 0.1, momentum: float = 0.9, **options: Any) -> None:
            super().__init__(learning_rate, momentum, **{"name": None, **options})

    return Own()


MAKERS = {"scaled": scaled, "own": numbered}


@check.each(*MAKERS)
def optimizers_of_other_numbers_are_the_same(way: str) -> None:
    """A rank that has made one more has other names."""
    if IS_LEGACY:
        return
    if hvd.rank() == 0:
        MAKERS[way]()
    net = compiled(model(), hvd.DistributedOptimizer(MAKERS[way]()))
    names = hvd.allgather_object(net.optimizer.name)
    assert hvd.size() == 1 or len(set(names)) > 1, names
    train(net, range(2), own)
    assert_close(net.get_weights(), trained_alone(2))


@check
def an_unknown_variable_is_kerass_error() -> None:
    if IS_LEGACY:
        return
    trained = variables("a", "b")
    optimizer = built(trained[:1])
    expect_error(ValueError, lambda: apply(optimizer, [None, 1.0], trained), "Unknown variable")


@check.each(1, 2)
def an_eager_step_is_a_section_of_the_program(passes: int) -> None:
    trained = variables("a", "b")
    optimizer = built(trained, backward_passes_per_step=passes)

    def step() -> None:
        apply(optimizer, [1.0, 1.0], trained)

    with noted_sections() as seen:
        step()
        step()
        assert seen == 2 * ["[step", "]"], seen
        del seen[:]
        if BACKEND in ("tensorflow", "legacy"):
            import tensorflow as tf

            tf.function(step)()
        if BACKEND == "jax":
            import jax

            given = (
                [variable.value for variable in optimizer.variables],
                [tensor(1.0)] * 2,
                [variable.value for variable in trained],
            )
            jax.jit(optimizer.stateless_apply)(*given)
        assert seen == [], "what is compiled is none: it runs its parts as they are ready"


@check
def on_pytorch_a_backward_pass_is_a_section_of_the_program() -> None:
    if BACKEND != "torch":
        return
    trained = variables("a", "b")
    optimizer = built(trained)

    def step() -> None:
        for each in trained:
            each.value.grad = None
        sum((each.value * each.value).sum() for each in trained).backward()
        optimizer.apply([each.value.grad for each in trained], trained)

    with noted_sections() as seen:
        step()
        assert seen == ["[step", "]"], f"from the second step on: {seen}"
        step()
        assert seen == ["[step", "]", "[backward", "]", "[step", "]"], seen
