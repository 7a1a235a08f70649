"""Which addresses are inside: on this machine, in its networks, or reachable from there only."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

INSIDE_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host: Linux connects it to loopback
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, with the metadata of clouds
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, with broadcast
        ),
    )
)
PUBLIC_6 = IPv6Network("2000::/3")
"""All that the internet routes; the rest is loopback, link-local, unique local, multicast and unassigned."""
INSIDE_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # Teredo, ORCHID and other protocols
            "2001:db8::/32",
            "2002::/16",  # 6to4: it carries an IPv4 address, and a router may take the packet there
            "3fff::/20",
        ),
    )
)
NAT64 = IPv6Network("64:ff9b::/96")
ISATAP, ISATAP_MASK = 0x0000_5EFE, 0xFCFF_FFFF
NEVER_4 = tuple(map(IPv4Network, ("0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4")))
NEVER_6 = tuple(map(IPv6Network, ("::/128", "ff00::/8")))
"""Not even for those who allow private addresses: nobody serves pages there."""


def is_inside(address: Address | str) -> bool:
    """Return whether an address is inside, or may lead inside."""
    found = unwrapped(ip_address(address) if isinstance(address, str) else address)
    if isinstance(found, IPv4Address):
        return any(found in network for network in INSIDE_4)
    isatap = (int(found) >> 32) & ISATAP_MASK == ISATAP
    return isatap or found not in PUBLIC_6 or any(found in network for network in INSIDE_6)


def is_never_a_server(address: Address) -> bool:
    """Return whether an address is unspecified, multicast or broadcast."""
    found = unwrapped(address)
    if isinstance(found, IPv4Address):
        return any(found in network for network in NEVER_4)
    return any(found in network for network in NEVER_6)


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself.

    Where a network has IPv6 only, its DNS answers NAT64 addresses for every host of IPv4: those can't be refused as a
    whole.
    """
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in NAT64 else address
