"""A worker whose tensors are in an imitated GPU: runs a check of tests/gpu; or `stay DIRECTORY`: reduces until there is a
file `stop`; or `hang`: rank 1's GPU stops in the midst of collectives."""

import ctypes
import pathlib
import runpy
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import harness  # noqa: E402

harness.put_tensors_into_gpus()

import farandole.torch as hvd  # noqa: E402
import torch  # noqa: E402


def stay(directory: pathlib.Path) -> None:
    """Ranks agree about the end."""
    while not hvd.allreduce(torch.tensor([float((directory / "stop").exists())]), op=hvd.Max, name="stop").item():
        pass


def hang() -> None:
    """Ends by an exception."""
    tensor = torch.ones(1000)
    hvd.allreduce_(tensor, name="well")
    if hvd.rank() == 1:
        ctypes.CDLL(str(harness.FAKE_LIBRARIES)).fake_hang_collectives()
    hvd.allreduce_(tensor, name="hung")
    raise AssertionError("it did not hang")


def main() -> None:
    mode, *rest = sys.argv[1:]
    if mode not in ("stay", "hang"):
        sys.argv = ["checks.py", mode, "--device", "cpu"]
        runpy.run_path(str(ROOT / "tests" / "gpu" / "checks.py"), run_name="__main__")
        return
    hvd.init()
    if mode == "stay":
        stay(pathlib.Path(rest[0]))
    else:
        hang()
    hvd.shutdown()


if __name__ == "__main__":
    main()
