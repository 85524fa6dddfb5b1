"""The allow-list of the network proxy: which host and port, and which addresses a name may stand for.

An entry is `host`, `host:port`, `*.host` (any name below it, not itself), an IPv4 address or an IPv6 address in
brackets. Without a port it means 80 and 443. Names are compared exactly, after one normalisation.

A name says nothing about where it leads: whoever owns it can point it at this machine or its network. So a name only
stands for public addresses. Others are reached when the list has them literally, loopback also as `localhost`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

import idna

from toolyard.core.errors import ConfigError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS = (80, 443)
LOCALHOST = "localhost"

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME_CHARS = 253
_LAST_PORT = 65535
_MAX_LISTED_ENTRIES = 20

# Addresses that carry an IPv4 address inside, which a relay would unwrap.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TUNNEL_NETWORKS = tuple(ipaddress.IPv6Network(each) for each in ("2002::/16", "2001::/32", "64:ff9b:1::/48"))


def normalized_host(text: str) -> str | None:
    """A name in lower case without its final dot, or an address in its one spelling (IPv6 in brackets).

    None for anything else, numbers that the system's resolver would take for an address (`127.1`) included.
    """
    if text.startswith("[") and text.endswith("]"):
        return _normalized_ipv6(text[1:-1])
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _NAME_CHARS or not name.isascii() or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            return None
    return name


def normalized_port(text: str) -> int | None:
    if not _PORT.fullmatch(text):
        return None
    return int(text) if int(text) <= _LAST_PORT else None


def split_port(text: str) -> tuple[str, str | None]:
    """`host:port` in two; the port is None when there is none. The colons of a bracketed address are its own."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    return host, port


def literal_address(host: str) -> Address | None:
    """The address that a normal host is, if it is one."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def host_text(address: Address) -> str:
    """An address as a normal host."""
    return str(address) if isinstance(address, ipaddress.IPv4Address) else f"[{address}]"


def is_public(address: Address) -> bool:
    """Whether it is an address of the open internet, and only that."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped or address.is_site_local or any(address in wrapper for wrapper in _TUNNEL_NETWORKS):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_private)


@dataclass(frozen=True, slots=True)
class AllowListEntry:
    """One line of the list. `host` is normal; `subdomains_only` stands for the names beneath it instead of itself."""

    text: str
    host: str
    ports: tuple[int, ...]
    subdomains_only: bool = False

    @classmethod
    def parse(cls, text: str) -> AllowListEntry:
        name, port_text = split_port(text.strip())
        below = name.startswith("*.")
        host = normalized_host(_to_ascii(name[2:] if below else name))
        port = None if port_text is None else normalized_port(port_text)
        if host is None or (port is None and port_text is not None) or (below and literal_address(host)):
            raise ConfigError(
                f"{text!r} is not a host that can be allowed",
                hint="Write a name (example.org), a name and port (localhost:8080), *.name for what lies below it, "
                "or an address (10.0.0.5, [2001:db8::1]); no scheme, path or user.",
            )
        return cls(text.strip(), host, DEFAULT_PORTS if port is None else (port,), below)

    def matches(self, host: str, port: int) -> bool:
        if port not in self.ports:
            return False
        return (
            host.endswith(f".{self.host}") and literal_address(host) is None
            if self.subdomains_only
            else host == self.host
        )


class AllowList:
    """All entries. Immutable, so it serves any thread. Raises ConfigError for an entry that cannot be right."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = tuple(AllowListEntry.parse(entry) for entry in entries)

    def matches(self, host: str, port: int) -> bool:
        """Whether the list has this (normal) host and port. Where a name leads is for `may_connect`."""
        return any(entry.matches(host, port) for entry in self._entries)

    def may_connect(self, host: str, address: Address, port: int) -> bool:
        """Whether `host`, which is covered, may be connected to at `address`."""
        if literal_address(host) is not None:
            return literal_address(host) == address
        if host == LOCALHOST and address.is_loopback:
            return True
        return is_public(address) or self.matches(host_text(address), port)

    def describe(self) -> str:
        """The entries as written, for a refusal."""
        shown = ", ".join(entry.text for entry in self._entries[:_MAX_LISTED_ENTRIES])
        more = len(self._entries) - _MAX_LISTED_ENTRIES
        return f"{shown} and {more} more" if more > 0 else shown or "nothing"


def _to_ascii(name: str) -> str:
    """A name with letters of any script in the form the network uses; what has none comes back unchanged."""
    if name.isascii():
        return name
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        return ""


def _normalized_ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    # A scope names an interface; a mapped address is an IPv4 address in disguise.
    return None if address.scope_id or address.ipv4_mapped else f"[{address}]"
