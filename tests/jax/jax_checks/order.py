"""The order of a program's collectives: one on all ranks, whatever function, loop or branch they stand in."""

import random
import re
from typing import Any, Callable, Dict, List
from unittest import mock

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
from farandole.jax import _order
from farandole.process_sets import ProcessSet
from harness import Checks, expect_error

from .programs import TELLS_INSTANCES

check = Checks()


@check
def a_call_in_a_nested_function_runs_before_one_that_follows_it() -> None:
    """Only the root has rows, so that to XLA only there the loss waits for them."""
    nested = jax.jit(lambda x: jnp.sin(hvd.allreduce(x, op=hvd.Sum)))

    @jax.jit
    def step(x: Any) -> Any:
        total = nested(x * 1.5).sum()
        rows = hvd.gather(x * 3, 0)
        return total + (rows * rows).sum()

    ranks = numpy.arange(1.0, hvd.size() + 1)
    rows = 64 * (9 * ranks**2).sum() if hvd.rank() == 0 else 0
    for _ in range(3):
        found = step(jnp.full(64, hvd.rank() + 1.0))
        numpy.testing.assert_allclose(found, 64 * numpy.sin(1.5 * ranks.sum()) + rows, rtol=1e-5)


@check
def the_gradient_of_scans_and_of_a_checkpoint_is_that_of_calls_in_a_row() -> None:
    """Each rank has another constant in its program: it may be zero, and XLA then knows more."""
    mine = float(hvd.rank())

    def body(carry: Any, term: Any) -> Any:
        return carry + hvd.allreduce(carry * term), hvd.allreduce(term, op=hvd.Sum)

    def in_blocks(x: Any) -> Any:
        end, sums = jax.lax.scan(body, x, jnp.arange(3.0) + mine)
        second, others = jax.lax.scan(body, x * 2, jnp.arange(3.0) - mine)
        last = jax.checkpoint(lambda z: jnp.sin(hvd.allreduce(z, op=hvd.Sum)))(x)
        return sum(each.sum() for each in (end, sums, second, others, last))

    def in_a_row(x: Any) -> Any:
        total = 0.0
        for start, shift in ((x, mine), (x * 2, -mine)):
            for number in range(3):
                start, summed = body(start, number + shift + 0 * x[0])
                total += summed
            total += start.sum()
        return total + jnp.sin(hvd.allreduce(x, op=hvd.Sum)).sum()

    x = jnp.full(4, hvd.rank() + 1.0)
    numpy.testing.assert_allclose(jax.jit(jax.grad(in_blocks))(x), jax.jit(jax.grad(in_a_row))(x), rtol=1e-5)


@check
def a_program_whose_order_is_not_known_is_refused() -> None:
    with mock.patch.object(_order, "_LOWERED", "another event"):
        expect_error(
            jax.errors.JaxRuntimeError, lambda: jax.jit(hvd.allreduce)(jnp.ones(7)), "farandole_allreduce_without_order"
        )
    assert jax.jit(hvd.allreduce)(jnp.ones(8))[0] == 1


# ---- Random programs, compiled for ranks that are not there ---------------------------------------------------------


class Imagined(ProcessSet):
    """The process set as one of two ranks sees it. Programs are compiled for it, and do not run."""

    process_set_id = 0

    def __init__(self, rank: int) -> None:
        super().__init__([0, 1])
        self._rank = rank

    def size(self) -> int:
        return 2

    def rank(self) -> int:
        return self._rank


def parts_for(ranks: ProcessSet, constant: float) -> Dict[str, Callable[[Any], Any]]:
    """The parts of which a program may consist: functions of an array that give a number or an array."""

    def reduced(z: Any) -> Any:
        return jnp.sin(hvd.allreduce(z, op=hvd.Sum, process_set=ranks))

    def squares(call: Callable[..., Any], z: Any, *arguments: Any) -> Any:
        rows = call(jnp.ones((3, 1)) * z, *arguments, process_set=ranks)
        return (rows * rows).sum()

    def scan(inner: Callable[[Any], Any], z: Any) -> Any:
        return jax.lax.scan(lambda c, t: (c + inner(c * t), inner(t)), z, jnp.arange(3.0) + constant)

    def loop(z: Any) -> Any:
        """Its condition holds a call, and its body none."""
        return jax.lax.while_loop(lambda c: jnp.max(jax.lax.stop_gradient(reduced(c))) > 2, lambda c: c + 1, z)

    def branch(z: Any) -> Any:
        positive = jax.lax.stop_gradient(z).sum() > 0
        return jax.lax.cond(positive, lambda q: reduced(q).sum(), lambda q: q.sum() * constant, z)

    nested = jax.jit(reduced, inline=not TELLS_INSTANCES)
    return {
        "plain": reduced,
        "nested": lambda z: nested(z + constant),
        "twice": lambda z: nested(z) + nested(z * 2),
        "checkpoint": jax.checkpoint(reduced),
        "scan": lambda z: scan(reduced, z),
        "scan of a nested function": lambda z: scan(nested, z),
        "scan of a checkpoint": lambda z: scan(jax.checkpoint(reduced), z),
        "condition": lambda z: loop(jax.lax.stop_gradient(z)),
        "branch": branch,
        "gather": lambda z: squares(hvd.gather, z, 0),
        "scatter": lambda z: squares(hvd.scatter, z, 0),
        "uneven": lambda z: squares(hvd.reducescatter, z),
    }


def program_for(seed: int, rank: int) -> Callable[[Any], Any]:
    """A program as the rank has it. The programs of a seed differ by the rank's constants at most."""
    chance = random.Random(seed)
    constant = chance.choice([0.0, float(rank)])
    parts = parts_for(Imagined(rank), constant)
    chosen = [(chance.choice(sorted(parts)), 1 + chance.random()) for _ in range(chance.randint(2, 4))]

    def program(x: Any) -> Any:
        ends = [parts[name](x * factor) for name, factor in chosen]
        return sum(leaf.sum() for leaf in jax.tree.leaves(ends))

    ways: List[Callable[[Any], Any]] = [program, jax.grad(program), jax.vmap(jax.grad(program))]
    return ways[seed % len(ways)]


def computations_of(text: str) -> Dict[str, List[str]]:
    """For each computation of a compiled program its calls, and the computations it runs, in their order."""
    found: Dict[str, List[str]] = {}
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line)
        if head:
            lines = found.setdefault("entry" if head[1] else head[2], [])
        elif 'custom_call_target="farandole' in line:
            lines.append("call " + re.search(r'\bname = "([^"]+)"', line)[1])
        else:
            named = re.findall(r"(?:condition|body|to_apply|true_computation|false_computation)=%?([\w.\-]+)", line)
            branches = re.search(r"branch_computations=\{([^}]*)\}", line)
            if " while(" in line or " call(" in line or " conditional(" in line:
                lines += named + re.findall(r"[\w.\-]+", branches[1] if branches else "")
    return found


def order_of(text: str) -> List[str]:
    """The names of the calls of a compiled program, of which XLA has chosen the order."""
    computations = computations_of(text)

    def walk(name: str) -> List[str]:
        steps = [[each] if each.startswith("call ") else walk(each) for each in computations.get(name, [])]
        return [each for step in steps for each in step]

    return walk("entry")


@check
def random_programs_are_compiled_to_one_order_for_all_ranks() -> None:
    # The ranks share the work.
    for seed in range(hvd.rank(), 18, hvd.size()):
        x = jnp.ones((2, 4) if seed % 3 == 2 else 4)
        first, second = (order_of(jax.jit(program_for(seed, rank)).lower(x).compile().as_text()) for rank in (0, 1))
        assert first and first == second, f"seed {seed}: rank 0 has {first}, and rank 1 {second}"
