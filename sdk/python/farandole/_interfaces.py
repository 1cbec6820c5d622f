"""The network interfaces of this host."""

import fcntl
import ipaddress
import socket
import struct
from typing import Dict, Sequence

_SIOCGIFADDR = 0x8915


def _addresses() -> Dict[str, str]:
    """The IPv4 address of each interface that has one."""
    addresses = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asks.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue
            addresses[name] = socket.inet_ntoa(answer[20:24])
    return addresses


def _fits(wanted: str, name: str, address: str) -> bool:
    if wanted == name:
        return True
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(wanted, strict=False)
    except ValueError:
        return False


def address_of_first(interfaces: Sequence[str]) -> str:
    """The address of the first of these interfaces that this host has, each given by its name, its address, or a network as
    10.0.0.0/8; "": it has none."""
    own = _addresses() if interfaces else {}
    for wanted in interfaces:
        for name, address in own.items():
            if _fits(wanted, name, address):
                return address
    return ""
