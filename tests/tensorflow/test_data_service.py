"""A tf.data service whose workers are a job, and a job of trainers, as processes of their own."""

import contextlib
import hmac
import os
import pathlib
import pickle
import re
import subprocess
import sys
import time
from typing import Any, List, Sequence, Set

import harness
import pytest
from farandole import _proofs
from farandole.tensorflow.data import compute_worker
from farandole.tensorflow.data.compute_service import TfDataServiceConfig

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


def places_in(config: pathlib.Path, workers: "subprocess.Popen[str]") -> Set[str]:
    """The addresses at which trainers find rank 0 of the workers, which writes the file."""
    end = time.monotonic() + harness.JOB_SECONDS
    while not config.exists():
        assert workers.poll() is None and time.monotonic() < end, "the workers write no file"
        with contextlib.suppress(subprocess.TimeoutExpired):
            workers.wait(0.1)
    return {host for places in TfDataServiceConfig.read(str(config)).addresses.values() for host, _ in places}


def both(
    folder: pathlib.Path, of_workers: Sequence[str], of_trainers: Sequence[str], address: str = "127.0.0.1"
) -> List[List[int]]:
    """The rows that each trainer has had. Both jobs end well. `address`: where trainers find the workers."""
    config = folder / "config.json"
    workers = start(folder, "workers", "-m", "horovod.tensorflow.data.compute_worker", str(config), *of_workers)
    trainers = start(folder, "trainers", str(PROGRAM), str(config), *of_trainers)
    try:
        assert places_in(config, workers) == {address}
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


def own_address() -> str:
    """This host's in its network; where it is in none, another one of its loopback."""
    try:
        return compute_worker._own_address("192.0.2.1")
    except OSError:
        return "127.0.0.2"


def test_trainers_share_the_rows_of_one_run_at_an_address_for_other_hosts(tmp_path: pathlib.Path) -> None:
    rows = both(tmp_path, ["--dispatchers", "1", "--address", own_address()], ["--reuse-dataset"], own_address())
    assert sorted(rows[0] + rows[1]) == list(range(64))


@pytest.mark.parametrize(
    "places, wanted",
    [
        # The coordinator is on another host than rank 0.
        ([("10.0.0.1", "10.0.0.5"), ("10.0.0.1", "10.0.0.6")], "10.0.0.5"),
        # It is on rank 0's host, where others find it by another name.
        ([("127.0.0.1", "127.0.0.1"), ("node0", "10.0.0.6")], "node0"),
    ],
)
def test_workers_of_several_hosts_are_found_where_the_others_know_the_first(places: Any, wanted: str) -> None:
    assert compute_worker._address_for_all(places) == wanted


def test_the_key_does_not_cross_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    crossed: List[bytes] = []

    def prove_as(secret: bytes) -> None:
        monkeypatch.setattr(
            _proofs, "proof_of", lambda label, seed: hmac.digest(secret, label.encode() + seed, "sha256")
        )

    def broadcast_object(told: Any, name: str) -> Any:
        if told is not None:
            crossed.append(pickle.dumps(told))
        return pickle.loads(crossed[-1])

    monkeypatch.setattr(compute_worker, "broadcast_object", broadcast_object)
    prove_as(b"the epoch's")
    seed = os.urandom(32)
    config = TfDataServiceConfig(1, 2, "compute", {"workers": [("10.0.0.5", 1)]}, compute_worker._key_of(seed), 60)
    assert compute_worker._share(config, seed) == config
    assert compute_worker._share(None, os.urandom(32)) == config
    assert config.key not in crossed[0]
    prove_as(b"a stranger's")
    assert compute_worker._share(None, os.urandom(32)).key != config.key


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_config_of_another_user_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.json"
    config = TfDataServiceConfig(1, 1, "compute", {"workers": [("127.0.0.1", 1)]}, b"key")
    config.write(str(path))
    assert TfDataServiceConfig.read(str(path)).key == b"key"
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match=r"config.json: it belongs to user 65534, who is neither this user \(0\)"):
        TfDataServiceConfig.read(str(path))
    assert [each.name for each in tmp_path.iterdir()] == ["config.json"]
