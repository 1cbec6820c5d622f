"""An import of one framework's module imports no other framework."""

import pathlib
from typing import Sequence

import imports
import pytest


@pytest.mark.parametrize("module,own", [("farandole", ()), ("farandole.numpy", ()), ("farandole.torch", ("torch",))])
def test_a_module_imports_no_framework_but_its_own(module: str, own: Sequence[str], tmp_path: pathlib.Path) -> None:
    assert imports.imported_by(tmp_path, module, own) == []


def test_what_is_imported_is_found(tmp_path: pathlib.Path) -> None:
    assert imports.imported_by(tmp_path, "keras, farandole, mxnet", ()) == ["keras", "mxnet"]
