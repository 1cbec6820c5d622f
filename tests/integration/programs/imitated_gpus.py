"""A worker whose tensors are in an imitated GPU: runs a check of tests/gpu; or `stay DIRECTORY`: reduces until there is a
file `stop`; or `split_death`: rank 1 dies while communicators are split; or `hang`: rank 1's GPU stops in the midst of collectives; or `graph`: collectives are captured in a CUDA
graph; or `bare`: the driver loads no kernels."""

import ctypes
import pathlib
import runpy
import sys
from typing import Callable, Dict

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import harness  # noqa: E402

harness.put_tensors_into_gpus()

import farandole.torch as hvd  # noqa: E402
import torch  # noqa: E402
from farandole import Handle  # noqa: E402
from farandole.exceptions import HorovodInternalError, NotReady  # noqa: E402


def stay(directory: str) -> None:
    """Ranks agree about the end."""
    end = pathlib.Path(directory, "stop")
    while not hvd.allreduce(torch.tensor([float(end.exists())]), op=hvd.Max, name="stop").item():
        pass


def bare(directory: str) -> None:
    """Tensors are packed all the same, and factors that NCCL has not are refused."""
    ctypes.CDLL(str(harness.FAKE_LIBRARIES)).fake_refuse_modules()
    for total in hvd.grouped_allreduce([torch.ones(size) for size in range(1, 50)], op=hvd.Sum, name="many"):
        assert torch.equal(total, torch.full_like(total, float(hvd.size())))
    try:
        hvd.allreduce(torch.ones(3), op=hvd.Max, prescale_factor=2.0, name="scaled")
    except ValueError as error:
        assert "scaled: max of float32 with the factors 2 and 1 wants kernels" in str(error), error
    else:
        raise AssertionError("it was scaled")
    stay(directory)


def split_death() -> None:
    """Rank 2 is not in the new set."""
    hvd.add_process_set([0, 1])
    if hvd.rank() == 1:
        ctypes.CDLL(str(harness.FAKE_LIBRARIES)).fake_die_in_split()
    try:
        hvd.allreduce_(torch.ones(10), name="first")
    except HorovodInternalError as error:
        print(f"told: {error}", flush=True)
        return
    raise AssertionError("nobody died")


def hang() -> None:
    """Ends by an exception."""
    tensor = torch.ones(1000)
    hvd.allreduce_(tensor, name="well")
    if hvd.rank() == 1:
        ctypes.CDLL(str(harness.FAKE_LIBRARIES)).fake_hang_collectives()
    hvd.allreduce_(tensor, name="hung")
    raise AssertionError("it did not hang")


def graph() -> None:
    """The graph stays, as a program's does at its end."""
    fake = ctypes.CDLL(str(harness.FAKE_LIBRARIES))
    fake.fake_end_capture.restype = ctypes.c_void_p
    given, reduced = torch.ones(1000), torch.ones(10)
    hvd.allreduce_(given, name="first")
    fake.fake_begin_capture()
    handle = hvd.allreduce_async_(reduced, op=hvd.Sum, name="captured.in.place")
    outputs = hvd.grouped_allreduce([given, given[:3]], op=hvd.Sum, name="captured")
    rows = hvd.allgather(given[: hvd.rank() + 1], name="captured.rows")
    letters, counts = hvd.alltoall(given[: hvd.size()], [1] * hvd.size(), name="captured.letters")
    hvd.synchronize(handle)
    captured = fake.fake_end_capture()
    assert captured, "something was not joined"
    for step in range(3):
        given.fill_(hvd.rank() + step)
        reduced.fill_(step)
        fake.fake_launch(ctypes.c_void_p(captured))
        total = float(sum(range(hvd.size())) + step * hvd.size())
        assert all(bool((output == total).all()) for output in outputs), outputs
        assert bool((reduced == step * hvd.size()).all()), reduced
        assert rows.tolist() == [float(one + step) for one in range(hvd.size()) for _ in range(one + 1)], rows
        assert letters.tolist() == [float(one + step) for one in range(hvd.size())], letters
        assert hvd.allreduce(given, op=hvd.Sum, name="beside")[0] == total
    assert counts.tolist() == [1] * hvd.size()
    try:
        hvd.synchronize(late_handle(fake))
    except NotReady as error:
        assert "before the capture ends" in str(error), error
    else:
        raise AssertionError("a captured collective was waited for")
    print(f"graph: well on {hvd.size()} ranks")


def late_handle(fake: ctypes.CDLL) -> Handle:
    """Of a collective whose capture is over."""
    fake.fake_begin_capture()
    handle = hvd.allreduce_async_(torch.ones(1), name="late")
    while not hvd.poll(handle):
        pass
    assert not fake.fake_end_capture(), "it was joined"
    return handle


def main() -> None:
    mode, *rest = sys.argv[1:]
    modes: Dict[str, Callable[..., None]] = {
        "stay": stay,
        "bare": bare,
        "hang": hang,
        "graph": graph,
        "split_death": split_death,
    }
    if mode not in modes:
        checks = ROOT / "tests" / "gpu"
        sys.path.insert(0, str(checks))
        sys.argv = ["checks.py", mode, "--device", "cpu"]
        runpy.run_path(str(checks / "checks.py"), run_name="__main__")
        return
    hvd.init()
    modes[mode](*rest)
    hvd.shutdown()


if __name__ == "__main__":
    main()
