"""Decides whether a host is public, in any spelling: not this machine, a private network or cloud metadata.

A name does not tell where it leads, so names are resolved before anything is sent (`has_private_address`).
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

_IDEOGRAPHIC_STOP: Final = "\u3002"
"""Counts as a dot in names (UTS 46); compatibility normalization maps the other dots to this one or `.`."""
_NUMBER_PATTERN: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
_IPV4_PARTS: Final = 4
_BYTE: Final = 256
_NAME_PATTERN: Final = re.compile(r"[\w-]+(?:\.[\w-]+)+")
_PRIVATE_ENDINGS: Final = frozenset(
    {
        *("localhost", "localdomain", "localdomain4", "localdomain6", "local", "internal", "intranet", "private"),
        *("corp", "home", "lan", "arpa", "svc", "consul", "test", "invalid", "onion", "alt"),
    }
)
_METADATA_NAMES: Final = frozenset({"metadata.goog"})
"""Cloud metadata hosts with public suffixes."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_TRANSLATED: Final = ipaddress.IPv6Network("::ffff:0:0:0/96")
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC: Final = (
    ipaddress.ip_network("192.0.0.0/24"),  # protocol assignments; 192.0.0.192 is a cloud's metadata
    ipaddress.ip_network("192.88.99.0/24"),  # 6to4 relays
    ipaddress.ip_network("3fff::/20"),  # documentation
)
"""Networks that older Python versions report as global."""
_ISATAP: Final = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def normalized_host(host: str) -> str:
    """Returns a host as resolvers see it: normalized characters, lower case, without trailing dots."""
    return unicodedata.normalize("NFKC", host).replace(_IDEOGRAPHIC_STOP, ".").lower().rstrip(".")


def is_loopback(host: str) -> bool:
    """Whether the host is this machine. If the address embeds others, all of them must be."""
    host = normalized_host(host)
    address = _parse_address(host)
    if address is None:
        return host.rpartition(".")[2] == "localhost"
    inner = [*_embedded_ipv4(address)]
    return all(each.is_loopback for each in inner) if inner else address.is_loopback


def is_public(host: str) -> bool:
    """Whether the host can be public. A name is judged by its suffix only."""
    host = normalized_host(host)
    address = _parse_address(host)
    if address is not None:
        return _is_public_address(address)
    ending = host.rpartition(".")[2]
    # A numeric last label is an address or invalid; a name without dots belongs to the local network.
    if not _NAME_PATTERN.fullmatch(host) or _NUMBER_PATTERN.fullmatch(ending):
        return False
    return ending not in _PRIVATE_ENDINGS and host not in _METADATA_NAMES


def has_private_address(addresses: Iterable[str]) -> bool:
    """Whether any of the resolved addresses is not public."""
    return any(not is_public(address.partition("%")[0]) for address in addresses)


def _parse_address(host: str) -> IpAddress | None:
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return None
    parts = host.split(".")
    if len(parts) > _IPV4_PARTS or not all(_NUMBER_PATTERN.fullmatch(part) for part in parts):
        return None
    try:
        *firsts, last = [_parse_number(part) for part in parts]
    except ValueError:
        return None
    room = _BYTE ** (_IPV4_PARTS - len(firsts))
    if any(first >= _BYTE for first in firsts) or last >= room:
        return None
    return ipaddress.IPv4Address(sum(first * _BYTE ** (3 - place) for place, first in enumerate(firsts)) + last)


def _parse_number(part: str) -> int:
    """Parses a number like `inet_aton`: hexadecimal after `0x`, octal after `0`."""
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if len(part) > 1 and part.startswith("0") else 10)


def _is_public_address(address: IpAddress) -> bool:
    inner = [*_embedded_ipv4(address)]
    if inner:
        return all(map(_is_public_address, inner))
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOT_PUBLIC)


def _embedded_ipv4(address: IpAddress) -> Iterator[ipaddress.IPv4Address]:
    """Yields the IPv4 addresses that an IPv6 address translates to or tunnels through."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif _ends_in_ipv4(address):
        yield ipaddress.IPv4Address(address.packed[12:])


def _ends_in_ipv4(address: ipaddress.IPv6Address) -> bool:
    if address in _COMPATIBLE:
        return int(address) > 1
    return address in _NAT64 or address in _TRANSLATED or address.packed[8:12] in _ISATAP
