"""Packs what tools/wheel has put together; pyproject.toml has the rest. Compiles nothing."""

import pathlib

import setuptools

HERE = pathlib.Path(__file__).resolve().parent

if not (HERE / "farandole" / "_bin" / "farandole").exists():
    raise SystemExit(
        f"farandole: {HERE} has no compiled program and libraries to pack; run `make wheel` in the checkout and "
        "`pip install dist/*.whl`"
    )


class CompiledDistribution(setuptools.Distribution):
    """Of one platform, since there are compiled files in the package."""

    def has_ext_modules(self) -> bool:
        return True


setuptools.setup(distclass=CompiledDistribution)
