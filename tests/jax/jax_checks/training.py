"""Training: the ranks come to the parameters of one process that has the whole batch."""

import inspect
from typing import Any, Tuple

import equinox
import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
import optax
from flax import nnx
from harness import Checks, expect_error, noted_sections

check = Checks()

ROWS, FEATURES = 12, 5


def batch() -> Tuple[jax.Array, jax.Array]:
    """The whole batch, the same on all ranks: 12 rows, which 1 to 4 ranks share equally."""
    inputs = jnp.asarray(numpy.random.RandomState(1).randn(ROWS, FEATURES))
    return inputs, jnp.tanh(inputs @ jnp.arange(FEATURES)).reshape(-1, 1)


def share(array: jax.Array) -> jax.Array:
    rows = ROWS // hvd.size()
    return array[hvd.rank() * rows : (hvd.rank() + 1) * rows]


def first_parameters(seed: int) -> Any:
    keys = jax.random.split(jax.random.key(seed))
    return {"hidden": jax.random.normal(keys[0], (FEATURES, 8)), "out": jax.random.normal(keys[1], (8, 1))}


def loss_of(params: Any, inputs: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.mean((jnp.tanh(inputs @ params["hidden"]) @ params["out"] - targets) ** 2)


def train(optimizer: Any, params: Any, inputs: jax.Array, targets: jax.Array, gradient: Any = jax.grad) -> Any:
    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(gradient(loss_of)(params, inputs, targets), state, params)
        return optax.apply_updates(params, updates), state

    state = optimizer.init(params)
    for _ in range(20):
        params, state = step(params, state)
    return params


def assert_close(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    jax.tree.map(lambda a, b: numpy.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), found, wanted)


def assert_equal_on_all_ranks(tree: Any) -> None:
    for other in hvd.allgather_object(jax.tree.map(numpy.asarray, tree)):
        jax.tree.map(numpy.testing.assert_array_equal, other, jax.tree.map(numpy.asarray, tree))


@check.each("sgd", "adam", "adamw")
def an_optimizer_trains_to_the_parameters_of_one_process(kind: str) -> None:
    inputs, targets = batch()
    wanted = train(getattr(optax, kind)(0.05), first_parameters(0), inputs, targets)
    params = hvd.broadcast_parameters(first_parameters(hvd.rank()), root_rank=0)
    found = train(hvd.DistributedOptimizer(getattr(optax, kind)(0.05)), params, share(inputs), share(targets))
    assert_close(found, wanted)
    assert_equal_on_all_ranks(found)


@check.each("grad", "value_and_grad", "value_and_grad with passes")
def backward_and_step_are_sections_of_an_eager_program(way: str) -> None:
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=2 if "passes" in way else 1)
    gradient = hvd.grad if way == "grad" else hvd.value_and_grad
    data = [share(each) for each in batch()]

    def step(params: Any, state: Any, *given: Any) -> Any:
        found = gradient(loss_of)(params, *given)
        updates, state = optimizer.update(found if way == "grad" else found[1], state, params)
        return optax.apply_updates(params, updates), state

    params = first_parameters(0)
    state = optimizer.init(params)
    with noted_sections() as seen:
        for _ in range(2):
            params, state = step(params, state, *data)
        steps = ["[step", "]"]
        first = [] if "passes" in way else steps
        assert seen == ["[backward", "]", *first, "[backward", "]", *steps], seen
        del seen[:]
        jax.jit(step)(params, state, *data)
        assert seen == [], "of a compiled step no part is one"


def plateau(learning_rate: float) -> Any:
    scaled = optax.contrib.reduce_on_plateau(factor=0.5, patience=1, cooldown=0, rtol=0.02)
    return optax.chain(optax.adam(learning_rate), scaled)


def own_scale() -> Any:
    """An optimizer that looks at `value`, and at the gradients that it is given by name."""

    def update(updates: Any, state: Any, params: Any = None, *, value: Any, grad: Any, **_extra: Any) -> Any:
        del params, updates
        return jax.tree.map(lambda each: -0.05 * jnp.tanh(value) * each, grad), state

    return optax.GradientTransformationExtraArgs(lambda _params: optax.EmptyState(), update)


DECIDES = {
    "plateau": lambda: plateau(0.3),
    "polyak": lambda: optax.polyak_sgd(0.1),
    "own": own_scale,
    "lbfgs": lambda: optax.chain(optax.lbfgs(linesearch=None), optax.scale(0.05)),
}


@check.each(*((kind, how) for kind in DECIDES for how in ("compiled", "eager")))
def an_optimizer_may_decide_by_the_loss(kind: str, how: str) -> None:
    """It gets that of all ranks. Horovod has no JAX."""

    def run(optimizer: Any, *data: jax.Array) -> Any:
        def step(params: Any, state: Any) -> Any:
            value, gradients = jax.value_and_grad(loss_of)(params, *data)
            updates, state = optimizer.update(gradients, state, params, value=value, grad=gradients)
            return optax.apply_updates(params, updates), state

        stepped = jax.jit(step) if how == "compiled" else step
        params = first_parameters(0)
        state = optimizer.init(params)
        for _ in range(15 if how == "compiled" else 5):
            params, state = stepped(params, state)
        return params

    inputs, targets = batch()
    wanted = run(optax.with_extra_args_support(DECIDES[kind]()), inputs, targets)
    found = run(hvd.DistributedOptimizer(DECIDES[kind]()), share(inputs), share(targets))
    assert_equal_on_all_ranks(found)
    assert_close(found, wanted, 1e-7)


@check.each(1, 2)
def a_search_by_the_loss_of_one_rank_is_refused(passes: int) -> None:
    optimizer = hvd.DistributedOptimizer(optax.lbfgs(), backward_passes_per_step=passes)
    params = first_parameters(0)
    data = tuple(map(share, batch()))
    value, gradients = jax.value_and_grad(loss_of)(params, *data)
    state = optimizer.init(params)
    terms = {"value": value, "grad": gradients, "value_fn": lambda other: loss_of(other, *data)}
    expect_error(ValueError, lambda: optimizer.update(gradients, state, params, **terms), "value_fn", "linesearch=None")


@check
def the_other_ways_train_to_them_as_well() -> None:
    inputs, targets = batch()
    wanted = train(optax.sgd(0.05), first_parameters(0), inputs, targets)
    mine = share(inputs), share(targets)
    params = first_parameters(0)
    assert_close(train(optax.sgd(0.05), params, *mine, gradient=hvd.grad), wanted)
    with_value = lambda loss: lambda *given: hvd.value_and_grad(loss)(*given)[1]  # noqa: E731
    assert_close(train(optax.sgd(0.05), params, *mine, gradient=with_value), wanted)
    chained = optax.chain(hvd.allreduce_gradients(gradient_predivide_factor=2.0), optax.sgd(0.05))
    assert_close(train(chained, params, *mine), wanted)
    assert_close(train(hvd.distributed(optax.sgd(0.05), compression=hvd.Compression.bf16), params, *mine), wanted, 0.05)


@check
def one_call_reduces_all_gradients_of_a_step() -> None:
    optimizer, params = hvd.DistributedOptimizer(optax.adam(0.05)), first_parameters(0)
    text = jax.jit(optimizer.update).lower(params, optimizer.init(params), params).as_text()
    assert len(jax.tree.leaves(params)) == 2 and text.count("custom_call @farandole_") == 1, text
    gradients = [{"a": jnp.ones(3), "b": [jnp.ones(2), jnp.ones(())]}]
    text = jax.jit(hvd.grad(lambda tree: sum(leaf.sum() for leaf in jax.tree.leaves(tree)))).lower(gradients).as_text()
    assert text.count("custom_call @farandole_") == 1, text


@check
def gradients_of_several_passes_are_added_up_first() -> None:
    inputs, targets = batch()
    params = first_parameters(0)
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=2, average_aggregated_gradients=True)
    state = optimizer.init(params)
    gradients = jax.grad(loss_of)(params, share(inputs), share(targets))
    update = jax.jit(optimizer.update)
    before = hvd.counters().submissions
    first, state = update(gradients, state, params)
    jax.block_until_ready(first)
    assert hvd.counters().submissions == before, "the first pass reduces nothing"
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(first))
    second, state = update(jax.tree.map(lambda leaf: 3 * leaf, gradients), state, params)
    whole = jax.grad(loss_of)(params, inputs, targets)
    assert_close(second, jax.tree.map(lambda leaf: -0.1 * 2 * leaf, whole))
    summing = hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=2)
    state = summing.init(params)
    for _ in range(2):
        updates, state = summing.update(gradients, state, params)
    assert_close(updates, jax.tree.map(lambda leaf: -0.1 * 2 * leaf, whole))


@check
def values_and_auxiliaries_stay_this_ranks_own() -> None:
    def loss(x: Any) -> Any:
        return (x * (hvd.rank() + 1)).sum(), hvd.rank()

    (value, extra), gradient = hvd.value_and_grad(loss, has_aux=True)(jnp.ones(3))
    assert (value, extra) == (3 * (hvd.rank() + 1), hvd.rank())
    numpy.testing.assert_allclose(gradient, numpy.full(3, sum(range(1, hvd.size() + 1)) / hvd.size()))
    gradient, extra = hvd.grad(loss, has_aux=True)(jnp.ones(3))
    assert extra == hvd.rank()
    both = hvd.grad(lambda x, y: (x * y).sum(), argnums=(0, 1), op=hvd.Sum)(jnp.ones(2), jnp.full(2, 2.0))
    assert both[0][0] == 2 * hvd.size() and both[1][0] == hvd.size()


@check
def arguments_of_the_optimizer_that_are_wrong_are_named() -> None:
    expect_error(ValueError, lambda: hvd.DistributedOptimizer(3), "Optax", "3")
    expect_error(ValueError, lambda: hvd.DistributedOptimizer(optax.sgd(1.0), backward_passes_per_step=0), "0")
    expect_error(
        ValueError,
        lambda: hvd.DistributedOptimizer(optax.sgd(1.0), op=hvd.Sum, gradient_predivide_factor=2.0),
        "Average",
    )


@check
def parameters_of_all_kinds_come_from_the_root() -> None:
    rank = hvd.rank()
    given = {
        "array": jnp.full(3, rank),
        "numpy": numpy.full(2, rank, "float32"),
        "key": jax.random.key(rank),
        "flags": jnp.asarray([rank == 0]),
        "number": rank,
        "text": f"rank {rank}",
        "function": jnp.tanh,
        "none": None,
        "half": jnp.full(2, rank, "bfloat16"),
    }
    found = hvd.broadcast_parameters(given)
    assert found["array"].tolist() == [0, 0, 0] and found["numpy"].tolist() == [0, 0]
    assert jax.random.key_data(found["key"]).tolist() == jax.random.key_data(jax.random.key(0)).tolist()
    assert found["flags"].tolist() == [True] and (found["number"], found["text"]) == (0, "rank 0")
    assert found["function"] is jnp.tanh and found["none"] is None and found["half"].dtype == "bfloat16"
    state = hvd.broadcast_optimizer_state(optax.adam(0.1).init({"w": jnp.full(2, float(rank))}))
    assert state[0].count == 0


@check
def a_model_of_flax_trains_to_the_parameters_of_one_process() -> None:
    inputs, targets = batch()

    def trained(seed: int, optimizer: Any, inputs: Any, targets: Any) -> Any:
        class Model(nnx.Module):
            def __init__(self, rngs: nnx.Rngs) -> None:
                self.hidden = nnx.Linear(FEATURES, 8, param_dtype=jnp.float64, rngs=rngs)
                self.out = nnx.Linear(8, 1, param_dtype=jnp.float64, rngs=rngs)

            def __call__(self, x: Any) -> Any:
                return self.out(nnx.tanh(self.hidden(x)))

        model = Model(nnx.Rngs(seed))
        nnx.update(model, hvd.broadcast_parameters(nnx.state(model)))
        tools = nnx.Optimizer(model, optimizer, wrt=nnx.Param)

        @nnx.jit
        def step(model: Any, tools: Any) -> None:
            gradients = nnx.grad(lambda m: jnp.mean((m(inputs) - targets) ** 2))(model)
            # Before Flax 0.11 it keeps the model.
            tools.update(*([model] if "model" in inspect.signature(tools.update).parameters else []), gradients)

        for _ in range(10):
            step(model, tools)
        return jax.tree.leaves(nnx.state(model, nnx.Param))

    wanted = trained(0, optax.adam(0.05), inputs, targets)
    found = trained(hvd.rank(), hvd.DistributedOptimizer(optax.adam(0.05)), share(inputs), share(targets))
    assert_close(found, wanted)


@check
def a_model_of_equinox_trains_to_the_parameters_of_one_process() -> None:
    inputs, targets = batch()

    def trained(seed: int, optimizer: Any, inputs: Any, targets: Any) -> Any:
        model = equinox.nn.MLP(FEATURES, 1, 8, 1, key=jax.random.key(seed))
        model = hvd.broadcast_parameters(model)
        state = optimizer.init(equinox.filter(model, equinox.is_inexact_array))

        @equinox.filter_jit
        def step(model: Any, state: Any) -> Any:
            gradients = equinox.filter_grad(lambda m: jnp.mean((jax.vmap(m)(inputs) - targets) ** 2))(model)
            updates, state = optimizer.update(gradients, state, equinox.filter(model, equinox.is_inexact_array))
            return equinox.apply_updates(model, updates), state

        for _ in range(10):
            model, state = step(model, state)
        return equinox.filter(model, equinox.is_inexact_array)

    wanted = trained(0, optax.sgd(0.05), inputs, targets)
    found = trained(hvd.rank(), hvd.DistributedOptimizer(optax.sgd(0.05)), share(inputs), share(targets))
    assert_close(found, wanted)
