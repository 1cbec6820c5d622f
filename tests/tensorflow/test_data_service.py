"""A tf.data service whose workers are a job, and a job of trainers, as processes of their own."""

import os
import pathlib
import re
import subprocess
import sys
from typing import List, Sequence

import harness
import pytest

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "tensorflow2_mnist_data_service.py"


def start(folder: pathlib.Path, name: str, *command: str) -> "subprocess.Popen[str]":
    harness.require_cli()
    folder = folder / name
    folder.mkdir()
    launch = [str(harness.CLI), "run", "--horovod", "-np", "2", "--state-dir", str(folder / "state"), sys.executable]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*launch, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment
    )


def both(folder: pathlib.Path, of_workers: Sequence[str], of_trainers: Sequence[str]) -> List[List[int]]:
    """The rows that each trainer has had. Both jobs end well."""
    config = folder / "config.json"
    workers = start(folder, "workers", "-m", "horovod.tensorflow.data.compute_worker", str(config), *of_workers)
    trainers = start(folder, "trainers", str(PROGRAM), str(config), *of_trainers)
    try:
        output, _ = trainers.communicate(timeout=harness.JOB_SECONDS)
        assert trainers.returncode == 0, output[-5000:]
        said, _ = workers.communicate(timeout=harness.JOB_SECONDS)
        assert workers.returncode == 0, said[-5000:]
    finally:
        for process in (trainers, workers):
            process.terminate()
            process.communicate()
    # It has the service's secret, which nobody needs any more.
    assert not config.exists()
    found = dict(re.findall(r"rank (\d) has rows ([\d,]*)", output))
    return [[int(number) for number in found[rank].split(",") if number] for rank in sorted(found)]


@pytest.mark.parametrize("side", ["compute", "training"])
def test_each_trainer_has_all_rows_from_workers_of_its_own(
    tmp_path: pathlib.Path, side: str, pytestconfig: pytest.Config
) -> None:
    if side == "compute" and not pytestconfig.getoption("--all-setups"):
        pytest.skip("without --all-setups: dispatchers run on the compute side in the next test, too")
    rows = both(tmp_path, ["--dispatchers", "2", "--dispatcher-side", side], [])
    assert rows == [list(range(64))] * 2


def test_trainers_share_the_rows_of_one_run(tmp_path: pathlib.Path) -> None:
    rows = both(tmp_path, ["--dispatchers", "1"], ["--reuse-dataset"])
    assert sorted(rows[0] + rows[1]) == list(range(64))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_config_of_another_user_is_refused(tmp_path: pathlib.Path) -> None:
    from farandole.tensorflow.data.compute_service import TfDataServiceConfig

    path = tmp_path / "config.json"
    config = TfDataServiceConfig(1, 1, "compute", {"workers": [("127.0.0.1", 1)]}, b"key")
    config.write(str(path))
    assert TfDataServiceConfig.read(str(path)).key == b"key"
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match=r"config.json: it belongs to user 65534, who is neither this user \(0\)"):
        TfDataServiceConfig.read(str(path))
    assert [each.name for each in tmp_path.iterdir()] == ["config.json"]
