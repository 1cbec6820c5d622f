"""Puts one file beside the packages: a path file, by which Python finds Horovod's names inside the package farandole.

It comes after site-packages in sys.path, so that a Horovod that is installed there is found first.
"""

import pathlib

import setuptools
from setuptools.command.build_py import build_py

NAME = "farandole_horovod.pth"


class PathFile(build_py):
    """Copies it, in place of modules."""

    def run(self) -> None:
        self.mkpath(self.build_lib)
        self.copy_file(str(pathlib.Path(__file__).with_name(NAME)), str(pathlib.Path(self.build_lib) / NAME))


class Distribution(setuptools.Distribution):
    """Has something to build, although no modules."""

    def has_pure_modules(self) -> bool:
        return True


setuptools.setup(cmdclass={"build_py": PathFile}, distclass=Distribution)
