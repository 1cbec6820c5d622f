"""Which hosts and network interfaces run() is given."""

import socket

from farandole import runner
from farandole._interfaces import address_of_first


def test_an_interface_is_found_by_its_name_and_by_its_address() -> None:
    assert address_of_first(["lo"]) == address_of_first(["127.0.0.1"]) == "127.0.0.1"
    assert address_of_first(["nothing0", "203.0.113.0/24"]) == "" and address_of_first([]) == ""


def test_all_hosts_of_a_list_may_be_this_one() -> None:
    own_name = socket.gethostname()
    assert runner._are_this_host(f"localhost:2,{own_name}:1") and runner._are_this_host("localhost")
    assert not runner._are_this_host("localhost:2,elsewhere:2")
