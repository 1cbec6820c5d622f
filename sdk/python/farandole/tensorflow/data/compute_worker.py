"""The workers of a tf.data service as a job:

farandole run -np 4 python -m farandole.tensorflow.data.compute_worker CONFIGFILE

The job's rank 0 writes the file, which trainers read (TfDataServiceConfig.read), and removes it in the end.
"""

import argparse
import contextlib
import dataclasses
import pathlib
import secrets
import socket
from typing import Iterator, List, Optional, Sequence, Tuple

from ... import _proofs
from ..._compute_service import ComputeService
from ..._options import coordinator_host
from ...basics import init, local_size, rank, size
from ...objects import allgather_object, broadcast_object
from ..ops import barrier
from .compute_service import SIDES, TfDataServiceConfig, compute_worker_fn

LOOPBACK = "127.0.0.1"


def _own_address(host: str) -> str:
    """This host's, as another host sees it that this one reaches by the name or address."""
    family, kind, protocol, _, place = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as route:
        route.connect(place)  # sends nothing
        return str(route.getsockname()[0])


def _address_for_all(places: Sequence[Tuple[str, str]]) -> str:
    """Rank 0's address. `places`: of each rank, the coordinator's host and its own address on the way there."""
    own = places[0][1]
    if not own.startswith("127.") and own != "::1":
        return own
    # It is beside the coordinator, whose host the ranks of others know.
    return next((host for host, address in places if not address.startswith("127.") and address != "::1"), own)


def _address(given: Optional[str]) -> str:
    """Where the service listens, on rank 0: as few can reach it as possible."""
    if given:
        return given
    if size() == local_size():
        return LOOPBACK
    host = coordinator_host()
    return _address_for_all(allgather_object((host, _own_address(host)), "compute_worker.address"))


@contextlib.contextmanager
def _service(config_file: str, key: bytes, service: ComputeService, config: TfDataServiceConfig) -> Iterator[None]:
    config.write(config_file)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            if TfDataServiceConfig.read(config_file).key == key:
                pathlib.Path(config_file).unlink()
        service.shutdown()


def _key_of(seed: bytes) -> bytes:
    return _proofs.secret_of("the key of a tf.data service", seed)


def _share(config: Optional[TfDataServiceConfig], seed: bytes) -> TfDataServiceConfig:
    """Rank 0's config, on every rank. Between hosts a broadcast may be in plain text; so it has the seed in place of the
    key."""
    told = None if config is None else (dataclasses.replace(config, key=b""), seed)
    shared, seed = broadcast_object(told, name="TfDataServiceConfig")
    return dataclasses.replace(shared, key=_key_of(seed))


def main(dispatchers: int, dispatcher_side: str, configfile: str, timeout: int, address: Optional[str] = None) -> None:
    """Serves until a trainer ends it. ValueError: the ranks cannot be spread evenly over so many dispatchers."""
    init()
    if dispatchers < 1 or size() % dispatchers:
        raise ValueError(f"Number of processes ({size()}) must be a multiple of number of dispatchers ({dispatchers}).")
    listen = _address(address)
    with contextlib.ExitStack() as stack:
        config, seed = None, secrets.token_bytes(_proofs.PROOF_BYTES)
        if rank() == 0:
            key = _key_of(seed)
            workers = size() // dispatchers
            service = ComputeService(dispatchers, workers, key, listen)
            config = TfDataServiceConfig(dispatchers, workers, dispatcher_side, service.addresses(), key, timeout)
            stack.enter_context(_service(configfile, key, service, config))
        compute_worker_fn(_share(config, seed))
        # The service answers all that wait for its end before it is gone.
        barrier()


def run(arguments: Optional[List[str]] = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="compute_worker", description="A worker of a tf.data service.")
    parser.add_argument("configfile", help="where rank 0 writes the config that trainers read")
    parser.add_argument(
        "--dispatchers", type=int, default=1, help="how many there are: 1, or one for each trainer (default 1)"
    )
    parser.add_argument("--dispatcher-side", choices=SIDES, default="compute", help="where they run (default compute)")
    parser.add_argument(
        "--timeout", type=int, default=60, help="for how many seconds others are waited for (default 60)"
    )
    parser.add_argument(
        "--address",
        help="where trainers reach rank 0: by default 127.0.0.1 if all workers are on one host, else the address that the other hosts know",
    )
    given = parser.parse_args(arguments)
    main(given.dispatchers, given.dispatcher_side, given.configfile, given.timeout, given.address)


if __name__ == "__main__":
    run()
