"""The five lines of JAX's page, as they stand there."""

import pathlib

import pages

# By itself rank 1 would go the other way.
BEFORE = """
import jax.numpy as jnp


def init(key):
    return {"w": jax.random.normal(key, (3,)) + hvd.rank()}


def loss_of(params, inputs, targets):
    return (params["w"] * inputs - targets).sum()
"""
AFTER = """
first, mine = params["w"], jnp.ones(3) * (3.0 if hvd.rank() == 0 else -1.0)
for _ in range(3):
    params, state = step(params, state, mine, jnp.zeros(3))
assert jnp.allclose(first, jax.random.normal(jax.random.key(0), (3,)))
assert jnp.allclose(params["w"], first - 3 * 2e-3, atol=1e-5), (first, params)
"""


def test_its_five_lines_run(tmp_path: pathlib.Path) -> None:
    pages.require_five_lines(tmp_path, "jax.md", BEFORE, AFTER)
