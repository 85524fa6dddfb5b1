"""Parses the head of a proxy request, strictly.

If two parsers read one message differently, a request can be smuggled past the one that checks it. So everything has
exactly one accepted spelling, unusual requests are refused, and the head for the server is written anew from the
parsed values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolyard.sandbox.proxy.allow_list import normalized_host, normalized_port, split_port

_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/1\.[01]")
_FIELD_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(rb"[\t -~\x80-\xff]*")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_SCHEME = "http://"
_HTTP_PORT = 80

# They concern the connection to the proxy, or decide where the body ends or which virtual host is meant.
_DROPPED_FIELDS = frozenset(
    (b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings", b"host", b"content-length")
)
_PROXY_PREFIX = b"proxy-"


class BadRequest(Exception):  # noqa: N818 - the name HTTP gives it
    """The request is refused; `status` and the message are the answer."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """The destination of a request. `head` is sent to the server first; None for a tunnel (CONNECT)."""

    host: str
    port: int
    head: bytes | None = None
    length: int = 0
    """How many bytes of body follow the head."""


def parse_request(head: bytes) -> ProxyRequest:
    """Parses a request from its head, including the empty line. Raises BadRequest."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    matched = _REQUEST_LINE.fullmatch(first)
    if matched is None:
        raise BadRequest("The first line is not that of an HTTP/1.1 request.")
    method, target = matched[1], matched[2].decode("ascii")
    fields = [_parse_header_field(line) for line in lines]
    if method == b"CONNECT":
        return _parse_authority(target, default_port=None)
    return _plain_http_request(method, target, fields)


def _plain_http_request(method: bytes, target: str, fields: list[tuple[bytes, bytes]]) -> ProxyRequest:
    if not target.lower().startswith(_SCHEME):
        raise BadRequest("This is a proxy: ask for http://host/path, or CONNECT host:port for anything else.")
    rest = target[len(_SCHEME) :]
    end = next((at for at, letter in enumerate(rest) if letter in "/?#"), len(rest))
    where, path = _parse_authority(rest[:end], default_port=_HTTP_PORT), rest[end:]
    if "#" in path:
        raise BadRequest("A request names no fragment (#).")
    length = _content_length(fields)
    named = {
        name.strip().lower() for key, value in fields if key.lower() == b"connection" for name in value.split(b",")
    }
    shown = where.host if where.port == _HTTP_PORT else f"{where.host}:{where.port}"
    passed = [
        (key, value)
        for key, value in fields
        if key.lower() not in _DROPPED_FIELDS | named and not key.lower().startswith(_PROXY_PREFIX)
    ]
    passed += [(b"Content-Length", str(length).encode())] if length is not None else []
    path = path if path.startswith("/") else f"/{path}"
    head = b"%s %s HTTP/1.1\r\nHost: %s\r\n" % (method, path.encode("ascii"), shown.encode("ascii"))
    head += b"".join(b"%s: %s\r\n" % each for each in passed) + b"Connection: close\r\n\r\n"
    return ProxyRequest(where.host, where.port, head, length or 0)


def _parse_authority(text: str, *, default_port: int | None) -> ProxyRequest:
    host_text, port_text = split_port(text)
    host = normalized_host(host_text)
    port = default_port if port_text is None else normalized_port(port_text)
    if host is None or port is None:
        raise BadRequest("The request names no plain host and port.")
    return ProxyRequest(host, port)


def _parse_header_field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _FIELD_NAME.fullmatch(name) or not _FIELD_VALUE.fullmatch(value):
        raise BadRequest("A header field is malformed.")
    return name, value.strip(b" \t")


def _content_length(fields: list[tuple[bytes, bytes]]) -> int | None:
    """Returns the length of the body; None if the request does not say."""
    found = [(key.lower(), value) for key, value in fields]
    if any(key == b"transfer-encoding" for key, _ in found):
        raise BadRequest("A body must come with its Content-Length, not in chunks.", status=411)
    lengths = [value for key, value in found if key == b"content-length"]
    if not lengths:
        return None
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadRequest("Content-Length must be there once, as a number.")
    return int(lengths[0])
