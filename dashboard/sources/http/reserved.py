"""Addresses that no source may name: link-local ones, and those where clouds hand out credentials.

They are checked when a connection opens, on the address that DNS gave: a name can change its address after a check.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

METADATA_NAMES = ("metadata.google.internal", "metadata.goog")
METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        (
            "fd00:ec2::254",  # AWS; its IPv4 address is link-local, as those of Google and Azure
            "fd20:ce::254",  # Google
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure's host agent
            "192.0.0.192",  # Oracle
        ),
    )
)
NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: its last 32 bits are an IPv4 address
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]


class ReservedAddressError(OSError):
    """A connection to a reserved address was not opened."""

    def __init__(self, address: str) -> None:
        super().__init__(
            "reserved address"
        )  # one text for all: of other errors of several addresses aiohttp makes a new one
        self.address = address


def is_reserved(address: str) -> bool:
    """Return whether an IP address is link-local or that of a cloud's metadata; raise ValueError for another text."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or (IPv4Address(int(ip) & 2**32 - 1) if ip in NAT64 else ip)
    return ip.is_link_local or ip in METADATA_ADDRESSES


def open_socket(info: AddressInfo) -> socket.socket:
    """Return a socket for an address of `getaddrinfo`; raise ReservedAddressError for a reserved one."""
    family, kind, protocol, _, place = info
    if is_reserved(address := str(place[0])):
        raise ReservedAddressError(address)
    return socket.socket(family, kind, protocol)
