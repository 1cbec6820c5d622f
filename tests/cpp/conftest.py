"""Fixtures of the tests of the C++ SDK. Ranks are real processes, started by .venv/bin/farandole."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "python"))
