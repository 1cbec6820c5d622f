"""The functions on arrays are those of the one description; each framework's tests look at their own module's."""

import types
from typing import Any

import farandole.numpy
import farandole.torch
import pytest
import signatures


@pytest.mark.parametrize("module", [farandole.numpy, farandole.torch], ids=lambda module: module.__name__)
def test_functions_are_as_described(module: Any) -> None:
    signatures.require_described(module)


def changed(**functions: Any) -> types.SimpleNamespace:
    """farandole.numpy with other functions; None takes one away."""
    names = {**vars(farandole.numpy), **functions}
    listed = {*farandole.numpy.__all__, *functions} - {name for name, function in functions.items() if function is None}
    return types.SimpleNamespace(**{**names, "__name__": "farandole.numpy", "__all__": sorted(listed)})


@pytest.mark.parametrize(
    "functions",
    [
        {"allgather": None},
        {"grouped_broadcast": lambda tensors: tensors},
        {"allgather": lambda tensor, process_set=farandole.numpy.global_process_set, name=None: tensor},
        {"allgather": lambda tensor, name="x", process_set=farandole.numpy.global_process_set: tensor},
        {"allgather": lambda tensor, name=None: tensor},
        {"barrier": lambda process_set=farandole.numpy.global_process_set, name=None: None},
    ],
    ids=["less", "more", "order", "default", "without", "argument"],
)
def test_a_difference_is_found(functions: Any) -> None:
    signatures.require_described(changed())
    with pytest.raises(AssertionError):
        signatures.require_described(changed(**functions))
