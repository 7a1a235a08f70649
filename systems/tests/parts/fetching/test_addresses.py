"""Addresses that lead inside are refused, however they are written."""

from ipaddress import ip_address

import pytest

from rowmill_systems.parts.fetching.addresses import is_inside, is_never_a_server

INSIDE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "198.18.0.1", "203.0.113.9", "192.88.99.1",
    "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "3fff::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:c0a8:101::1", "2002:808:808::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2a00:1450::5efe:a00:1", "2a00:1450::200:5efe:7f00:1", "100::1",
]  # fmt: skip
OUTSIDE = [
    "8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.17.0.1",
    "223.255.255.255", "2a00:1450:4001:80b::200e", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_found(address: str) -> None:
    assert is_inside(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_internet_is_not(address: str) -> None:
    assert not is_inside(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "::ffff:0.0.0.0"])
def test_some_addresses_are_refused_also_when_private_ones_are_allowed(address: str) -> None:
    assert is_never_a_server(ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "::1", "fe80::1", "8.8.8.8"])
def test_private_addresses_can_be_allowed(address: str) -> None:
    assert not is_never_a_server(ip_address(address))
