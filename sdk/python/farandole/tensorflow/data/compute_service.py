"""The workers of a tf.data service, and how trainers find them.

A worker prepares the batches, a dispatcher spreads them. Dispatchers run on the compute side, beside workers, or on the
training side, in trainers. All trainers share one dispatcher, or each has its own with a part of the workers.
"""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import tempfile
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from ... import _compute_service
from ...basics import init, rank

_log = logging.getLogger(__name__)

SIDES = ("compute", "training")


@dataclasses.dataclass(frozen=True)
class TfDataServiceConfig:
    """Where a data service is, and its secret: whoever can read it can use the service."""

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: Mapping[str, Sequence[Tuple[str, int]]]
    key: bytes
    timeout: int = 60
    """For how many seconds the others are waited for."""

    def __post_init__(self) -> None:
        if self.dispatcher_side not in SIDES:
            raise ValueError(f"dispatcher_side is one of {', '.join(SIDES)}, not {self.dispatcher_side!r}")

    def compute_client(self, verbose: int = 1) -> _compute_service.ComputeClient:
        """For the service's requests: shutdown() ends all its workers. ConnectionError: it is not there."""
        return _compute_service.ComputeClient(self.addresses, self.key, verbose)

    def to_dict(self) -> Mapping[str, Any]:
        """As JSON can have it."""
        return {**self.__dict__, "key": self.key.hex()}

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> "TfDataServiceConfig":
        """The opposite. ValueError: something is missing or wrong."""
        try:
            addresses: Dict[str, List[Tuple[str, int]]] = {
                name: [(str(host), int(port)) for host, port in places] for name, places in config["addresses"].items()
            }
            return TfDataServiceConfig(
                dispatchers=int(config["dispatchers"]),
                workers_per_dispatcher=int(config["workers_per_dispatcher"]),
                dispatcher_side=config["dispatcher_side"],
                addresses=addresses,
                key=bytes.fromhex(config["key"]),
                timeout=int(config.get("timeout", 60)),
            )
        except KeyError as error:
            raise ValueError(f"the data service's config has no {error}") from None
        except (AttributeError, TypeError) as error:
            raise ValueError(f"this is no data service's config: {error}") from None

    def write(self, filename: str) -> None:
        """Into a file that only this user can read, and that is complete as soon as it is there."""
        path = pathlib.Path(filename)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as file:
            json.dump(self.to_dict(), file)
        os.rename(file.name, path)
        _log.info("the data service's config is in %s", filename)

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> "TfDataServiceConfig":
        """Of a file that write() has made, which may come later. ValueError: it has something else. PermissionError: it
        is another user's, who would get the trainers' data."""
        while wait_for_file_creation and not os.path.exists(filename):
            time.sleep(0.2)
        with open(filename, encoding="utf-8") as file:
            _require_own(file.fileno(), filename)
            try:
                return TfDataServiceConfig.from_dict(json.load(file))
            except ValueError as error:
                raise ValueError(f"{filename}: {error}") from None


def _require_own(file: int, filename: str) -> None:
    owner = os.fstat(file).st_uid
    if owner in (os.geteuid(), os.stat("/").st_uid):
        return
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=pathlib.Path(filename).parent) as probe:
        if os.fstat(probe.fileno()).st_uid == owner:
            return  # a file server may give this user's files another owner
    raise PermissionError(
        f"{filename}: it belongs to user {owner}, who is neither this user ({os.geteuid()}) nor root; remove it"
    )


def _reachable(target: str, address: str) -> str:
    """A server's address, which TensorFlow calls localhost, for other hosts."""
    return target.replace("localhost", f"[{address}]" if ":" in address else address)


class _Dispatcher:
    """TensorFlow's server, in this process. It has no end but this one."""

    def __init__(self, number: int, compute: _compute_service.ComputeClient) -> None:
        self._server = tf.data.experimental.service.DispatchServer()
        compute.register_dispatcher(number, _reachable(self._server.target, compute.own_address))
        _log.info("dispatcher %d serves", number)

    def stop(self) -> None:
        """Ends it."""
        _stop(self._server)


def _stop(server: Any) -> None:
    server._stop()  # pylint: disable=protected-access; TensorFlow has no other way
    server.join()


@contextlib.contextmanager
def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> Iterator[str]:  # pylint: disable=redefined-outer-name
    """Gives the address of a trainer's dispatcher, which runs here, until the end, if dispatchers are on the training side.

    Waits until the dispatcher and all its workers serve. TimeoutError: that takes longer than the config's timeout.
    """
    compute = compute_config.compute_client()
    shares = compute_config.dispatchers == 1
    number = 0 if shares else rank
    dispatcher = None
    if compute_config.dispatcher_side == "training" and (rank == 0 or not shares):
        dispatcher = _Dispatcher(number, compute)
    try:
        address = compute.wait_for_dispatcher_registration(number, compute_config.timeout)
        compute.wait_for_dispatcher_worker_registration(number, compute_config.timeout)
        yield address
    finally:
        if dispatcher is not None:
            dispatcher.stop()


def send_to_data_service(
    dataset: tf.data.Dataset,
    compute_config: TfDataServiceConfig,
    rank: int,  # pylint: disable=redefined-outer-name
    size: Optional[int] = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> tf.data.Dataset:
    """Has the workers run the dataset up to here; also a method of tf.data.Dataset.

    `reuse_dataset`: all trainers take their batches from one run of it; with `round_robin` in turns. RuntimeError: the
    dispatchers are on the training side, where tf_data_service() is to last as long as the dataset is used.
    """
    if compute_config.dispatcher_side == "training":
        raise RuntimeError("training side dispatcher not supported, use tf_data_service context manager instead")
    takes_turns = reuse_dataset and round_robin
    with tf_data_service(compute_config, rank) as address:
        return dataset.apply(
            tf.data.experimental.service.distribute(
                processing_mode=processing_mode,
                service=address,
                job_name="job" if reuse_dataset else None,
                consumer_index=rank if takes_turns else None,
                num_consumers=size if takes_turns else None,
            )
        )


tf.data.Dataset.send_to_data_service = send_to_data_service


def compute_worker_fn(compute_config: TfDataServiceConfig) -> None:
    """On each rank of the workers' job: serves until a trainer calls compute_client().shutdown()."""
    init()
    index = rank()
    number = index // compute_config.workers_per_dispatcher
    compute = compute_config.compute_client()
    dispatcher = None
    if compute_config.dispatcher_side == "compute" and index % compute_config.workers_per_dispatcher == 0:
        dispatcher = _Dispatcher(number, compute)
    address = compute.wait_for_dispatcher_registration(number, compute_config.timeout)
    worker = tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(
            dispatcher_address=address.split("://")[1],
            worker_address=_reachable("localhost:%port%", compute.own_address),
            heartbeat_interval_ms=1000,
            dispatcher_timeout_ms=compute_config.timeout * 1000,
        )
    )
    worker.start()
    compute.register_worker_for_dispatcher(number, index)
    _log.info("worker %d of dispatcher %d serves", index, number)
    compute.wait_for_shutdown()
    _stop(worker)
    if dispatcher is not None:
        dispatcher.stop()
