"""Which addresses are public: the registries of IANA, range by range, and however IPv6 writes an address of IPv4."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.rules.actions.addresses import is_public

#: https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast.
IPV4 = (
    "0.0.0.0/8",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.9/32",
    "192.0.0.10/32",
    "192.0.0.170/32",
    "192.0.0.171/32",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.88.99.2/32",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
)
#: https://www.iana.org/assignments/iana-ipv6-special-registry without the prefixes that have IPv4 in them, what was
#: site-local, and multicast.
IPV6 = (
    "::1/128",
    "::/128",
    "::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2620:4f:8000::/48",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
PUBLIC = (
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2400:cb00::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
)


@pytest.mark.parametrize("network", [*IPV4, *IPV6])
def test_a_special_range_is_not_public(network: str) -> None:
    """Neither its first nor its last address, nor one between."""
    found: IPv4Network | IPv6Network = IPv6Network(network) if ":" in network else IPv4Network(network)
    for address in (found[0], found[found.num_addresses // 2], found[-1]):
        assert not is_public(str(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_others_are_public(address: str) -> None:
    """Also those beside a range."""
    assert is_public(address)


def _forms(address: IPv4Address) -> list[IPv6Address]:
    """Mapped, translated (NAT64), and of 6to4."""
    number = int(address)
    return [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(0x64FF9B << 96 | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
    ]


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.sampled_from(IPV4).map(lambda each: IPv4Network(each)[-1]))
def test_an_address_of_ipv4_within_ipv6(address: IPv4Address) -> None:
    """It is public where the address itself is; compatible ones, Teredo and local translators never are."""
    for form in _forms(address):
        assert is_public(str(form)) == is_public(str(address))
    number = int(address)
    for hidden in (number, 0x20010000 << 96 | number ^ 0xFFFFFFFF, 0x64FF9B0001 << 80 | number):
        assert not is_public(str(IPv6Address(hidden)))


@given(st.integers(0, 2**128 - 1).map(IPv6Address), st.sampled_from(["", "%1", "%eth0"]))
def test_what_is_public_is_unicast(address: IPv6Address, zone: str) -> None:
    """Of IPv6 only what is allotted to the public, whatever ranges will be added elsewhere."""
    if is_public(f"{address}{zone}") and not address.ipv4_mapped:
        assert address in IPv6Network("2000::/3") or address in IPv6Network("64:ff9b::/96")
