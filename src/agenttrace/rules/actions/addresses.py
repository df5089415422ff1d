"""Which addresses are of the public internet: the one check of where a webhook may go."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

#: The IANA registry of special-purpose addresses, also those that are anycast, and multicast.
_SPECIAL_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by the customers of a provider
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, with the metadata of clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
#: All that is allotted to the public: the rest is loopback, local, multicast, for translators or segments, or reserved.
_UNICAST = IPv6Network("2000::/3")
#: The same registry, of what is in there.
_SPECIAL_IPV6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, with Teredo, which hides an address of IPv4
            "2001:db8::/32",  # documentation
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
#: The prefix by which translators (NAT64) reach IPv4; its last 32 bits are the address.
_TRANSLATED = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an address is of the public internet, also where IPv6 has one of IPv4 in it."""
    found = ip_address(address.partition("%")[0])
    return _is_public_ipv4(found) if isinstance(found, IPv4Address) else _is_public_ipv6(found)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in _SPECIAL_IPV4)


def _is_public_ipv6(address: IPv6Address) -> bool:
    embedded = address.ipv4_mapped or address.sixtofour
    if address in _TRANSLATED:
        embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    if embedded is not None:
        return _is_public_ipv4(embedded)
    return address in _UNICAST and not any(address in network for network in _SPECIAL_IPV6)
