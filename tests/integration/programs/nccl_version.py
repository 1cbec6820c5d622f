"""Farandole's report of the NCCL of a machine with imitated GPUs, before init() and without PyTorch: farandole finds
NCCL once it is there, though it was not before."""

import ctypes
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import farandole  # noqa: E402
import harness  # noqa: E402


def built() -> "tuple[int, bool]":
    return farandole.nccl_built(), farandole.cuda_built()


def main() -> None:
    path = os.environ.pop("FARANDOLE_NCCL_LIBRARY")
    assert built() == (0, False), "what is found as libnccl.so.2 is no library"
    os.environ["FARANDOLE_NCCL_LIBRARY"] = path
    ctypes.CDLL(path).fake_begin(os.environ[harness.GPUS].encode())
    os.environ["NCCL_COMM_BLOCKING"] = "1"
    assert built() == (0, False)
    del os.environ["NCCL_COMM_BLOCKING"]
    # No job could be joined with this.
    os.environ["FARANDOLE_SIZE"] = "0"
    assert built() == (23007, True)
    child = os.fork()
    if child == 0:
        os._exit(built() != (0, False))
    assert os.waitpid(child, 0)[1] == 0
    os.environ["FARANDOLE_NCCL_LIBRARY"] = "none"
    assert built() == (0, False)
    assert not farandole.is_initialized() and "torch" not in sys.modules


main()
