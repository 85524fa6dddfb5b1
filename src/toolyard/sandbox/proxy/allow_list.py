"""The allow-list of the network proxy: which hosts and ports, and which addresses a name may resolve to.

An entry is `host`, `host:port`, `*.host` (any name below it, not itself), an IPv4 address or an IPv6 address in
brackets. Without a port it means 80 and 443. Names are compared exactly, after normalisation.

A name does not say where it leads: its owner can point it at this machine or its network. So a name may resolve only
to public addresses. Others are allowed only if the list has them literally, loopback also as `localhost`.
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

# Addresses that embed an IPv4 address, which a relay would unwrap.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TUNNEL_NETWORKS = tuple(ipaddress.IPv6Network(each) for each in ("2002::/16", "2001::/32", "64:ff9b:1::/48"))


def normalized_host(text: str) -> str | None:
    """Returns a name in lower case without its final dot, or an address in canonical form (IPv6 in brackets).

    None for anything else, including numbers that the system's resolver would accept as an address (`127.1`).
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
    """Returns the port as a number; None if it is not valid."""
    if not _PORT.fullmatch(text):
        return None
    return int(text) if int(text) <= _LAST_PORT else None


def split_port(text: str) -> tuple[str, str | None]:
    """Splits `host:port`; the port is None if there is none. The colons of a bracketed address do not count."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    return host, port


def literal_address(host: str) -> Address | None:
    """Returns the address if a normalised host is one, else None."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def host_text(address: Address) -> str:
    """Returns an address as a normalised host."""
    return str(address) if isinstance(address, ipaddress.IPv4Address) else f"[{address}]"


def is_public(address: Address) -> bool:
    """Whether it is an address of the public internet, and only that."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped or address.is_site_local or any(address in wrapper for wrapper in _TUNNEL_NETWORKS):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_private)


@dataclass(frozen=True, slots=True)
class AllowListEntry:
    """One entry of the list.

    `host` is normalised; `subdomains_only` matches the names beneath it instead of itself.
    """

    text: str
    host: str
    ports: tuple[int, ...]
    subdomains_only: bool = False

    @classmethod
    def parse(cls, text: str) -> AllowListEntry:
        """Parses one entry. Raises ConfigError if it is not valid."""
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
        """Whether the entry allows this (normalised) host and port."""
        if port not in self.ports:
            return False
        return (
            host.endswith(f".{self.host}") and literal_address(host) is None
            if self.subdomains_only
            else host == self.host
        )


class AllowList:
    """All entries. Immutable and thread-safe. Raises ConfigError for an invalid entry."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = tuple(AllowListEntry.parse(entry) for entry in entries)

    def matches(self, host: str, port: int) -> bool:
        """Whether the list has this (normalised) host and port. `may_connect` checks where a name leads."""
        return any(entry.matches(host, port) for entry in self._entries)

    def may_connect(self, host: str, address: Address, port: int) -> bool:
        """Whether `host`, which the list matches, may be connected to at `address`."""
        if literal_address(host) is not None:
            return literal_address(host) == address
        if host == LOCALHOST and address.is_loopback:
            return True
        return is_public(address) or self.matches(host_text(address), port)

    def describe(self) -> str:
        """Returns the entries as written, for an error message."""
        shown = ", ".join(entry.text for entry in self._entries[:_MAX_LISTED_ENTRIES])
        more = len(self._entries) - _MAX_LISTED_ENTRIES
        return f"{shown} and {more} more" if more > 0 else shown or "nothing"


def _to_ascii(name: str) -> str:
    """Returns an international name in its ASCII form; a name without one comes back unchanged."""
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
    # A scope names an interface; a mapped address is really an IPv4 address.
    return None if address.scope_id or address.ipv4_mapped else f"[{address}]"
