"""JAX's functions on arrays are those of the one description. Horovod has none for JAX."""

import farandole.jax
import signatures


def test_functions_are_as_described() -> None:
    signatures.require_described(farandole.jax)
