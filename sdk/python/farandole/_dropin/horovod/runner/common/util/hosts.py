"""Hosts with slots, and who gets which, by Horovod's name."""

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple


@dataclass
class Host:
    """A host, and how many processes it takes."""

    hostname: str
    slots: int

    @staticmethod
    def from_string(host_string: str) -> "Host":
        """Of "name:slots"."""
        hostname, slots = host_string.strip().split(":")
        return Host(hostname, int(slots))


@dataclass
class Slot:
    """A process, and its places in the job, on its host, and among those of its place on other hosts."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int

    def to_response_string(self) -> str:
        """The numbers with commas between them."""
        pairs = (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size)
        return ",".join(map(str, pairs))


# By the names of Horovod.
HostInfo, SlotInfo = Host, Slot
INVALID_SLOT_INFO = Slot("", -1, -1, -1, -1, -1, -1)


def parse_hosts_and_slots(hosts: str) -> Tuple[List[str], Dict[str, int]]:
    """The names of "a:2,b:4", and the slots of each. ValueError: not written so."""
    for host in hosts.split(","):
        if not re.match(r"^[\w.-]+:[0-9]+$", host.strip()):
            raise ValueError(f"{host!r} is no host with slots, as in worker-0:2,worker-1:2")
    found = parse_hosts(hosts)
    return [host.hostname for host in found], {host.hostname: host.slots for host in found}


def parse_hosts(hosts_string: str) -> List[Host]:
    """The hosts of "a:2,b:4"."""
    return [Host.from_string(host) for host in hosts_string.split(",")]


def parse_host_files(filename: str) -> str:
    """The hosts of a file with lines "name slots=number", as "a:2,b:4"."""
    with open(filename, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return ",".join(f"{line.split()[0]}:{line.split('=')[1].strip()}" for line in lines if line)


def get_host_assignments(hosts: Sequence[Host], min_num_proc: int, max_num_proc: Optional[int] = None) -> List[Slot]:
    """Ranks for processes, host by host. ValueError: there are fewer slots than `min_num_proc`."""
    places = [(host.hostname, local) for host in hosts for local in range(host.slots)][:max_num_proc]
    if len(places) < min_num_proc:
        raise ValueError(f"Requested more processes ({min_num_proc}) than there are available slots ({len(places)})")
    local_sizes: Dict[str, int] = {}
    across: Dict[int, List[str]] = {}
    for hostname, local in places:
        local_sizes[hostname] = local + 1
        across.setdefault(local, []).append(hostname)
    return [
        Slot(
            hostname,
            rank,
            local,
            across[local].index(hostname),
            len(places),
            local_sizes[hostname],
            len(across[local]),
        )
        for rank, (hostname, local) in enumerate(places)
    ]
