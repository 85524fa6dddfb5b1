"""Recognizes plain messages, which can be answered without the SDK's models.

Plain means that the SDK would certainly accept the message with the same meaning: ASCII, no escapes, only members of
the protocol, each with the right type. Everything else is left to the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from toolyard.core.json_size import loads_unique
from toolyard.transports.mcp.server_info import MODERN_VERSION

_META = "io.modelcontextprotocol/"
_ENVELOPE = frozenset({f"{_META}protocolVersion", f"{_META}clientCapabilities"})
_IN_META = _ENVELOPE | {f"{_META}clientInfo", "progressToken"}
_HANDSHAKE = {"protocolVersion", "capabilities", "clientInfo"}
_IDENTITY = frozenset({"name", "version", "title", "description", "websiteUrl"})
_NOTIFICATION = "notifications/"
_ANY, _EACH = "any object", "an object of objects"
_CAPABILITIES: Mapping[str, object] = {
    "roots": {"listChanged": bool},
    "elicitation": {"form": _ANY, "url": _ANY},
    "sampling": {"context": _ANY, "tools": _ANY},
    "tasks": {
        "list": _ANY,
        "cancel": _ANY,
        "requests": {"sampling": {"createMessage": _ANY}, "elicitation": {"create": _ANY}},
    },
    "experimental": _EACH,
    "extensions": _EACH,
}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """A plain request."""

    id: int | str
    method: str
    params: Json


@dataclass(frozen=True, slots=True)
class PlainNotification:
    """A plain notification."""

    method: str
    params: Json


@dataclass(frozen=True, slots=True)
class ClientIntroduction:
    """What a client announces about itself."""

    name: str | None
    version: str
    supports_elicitation: bool


def plain_message(line: bytes) -> PlainRequest | PlainNotification | None:
    """Returns the message in a line; None if it is not plain."""
    if b"\\u" in line:  # may encode lone surrogates
        return None
    try:
        raw = loads_unique(line.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    message = cast("Json", raw)
    method, params = message.get("method"), message.get("params", {})
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
        return None
    params = cast("Json", params)
    rest = message.keys() - {"jsonrpc", "method", "params"}
    if not rest and method.startswith(_NOTIFICATION):
        return PlainNotification(method, params)
    request = message.get("id")
    if rest != {"id"} or type(request) not in {int, str}:
        return None
    return PlainRequest(cast("int | str", request), method, params)


def has_no_parameters(params: Mapping[str, Any]) -> bool:
    """Whether there are no parameters except a progress token."""
    if not params.keys() <= {"_meta"}:
        return False
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        return False
    fields = cast("Json", meta)
    return fields.keys() <= {"progressToken"} and _has_plain_token(fields)


def has_only_cursor(params: Mapping[str, Any]) -> bool:
    """Whether there are no parameters except a cursor."""
    return params.keys() <= {"cursor"} and isinstance(params.get("cursor", ""), str)


def client_from_handshake(params: Mapping[str, Any]) -> ClientIntroduction | None:
    """Returns the client of an `initialize` request; None if it is not plain."""
    if set(params) != _HANDSHAKE or not isinstance(params["protocolVersion"], str):
        return None
    capabilities, client = params["capabilities"], params["clientInfo"]
    if not _matches_shape(capabilities, _CAPABILITIES) or not _is_identity(client):
        return None
    return ClientIntroduction(
        client["name"], params["protocolVersion"], supports_elicitation="elicitation" in capabilities
    )


def client_from_meta(params: Mapping[str, Any]) -> ClientIntroduction | None:
    """Returns the client of a request of protocol 2026-07-28 without other parameters; None if it is not plain."""
    if set(params) != {"_meta"} or not isinstance(params["_meta"], dict):
        return None
    meta = cast("Json", params["_meta"])
    if not _ENVELOPE <= meta.keys() <= _IN_META or not _has_plain_token(meta):
        return None
    capabilities, client = meta[f"{_META}clientCapabilities"], meta.get(f"{_META}clientInfo")
    if meta[f"{_META}protocolVersion"] != MODERN_VERSION or not _matches_shape(capabilities, _CAPABILITIES):
        return None
    if f"{_META}clientInfo" in meta and not _is_identity(client):
        return None
    return ClientIntroduction(
        client["name"] if client else None, MODERN_VERSION, supports_elicitation="elicitation" in capabilities
    )


def _has_plain_token(meta: Mapping[str, Any]) -> bool:
    return "progressToken" not in meta or type(meta["progressToken"]) in {int, str}


def _is_identity(client: object) -> bool:
    if not isinstance(client, dict):
        return False
    fields = cast("Json", client)
    return {"name", "version"} <= fields.keys() <= _IDENTITY and all(
        isinstance(item, str) for item in fields.values()
    )


def _matches_shape(value: object, shape: object) -> bool:
    """Whether a capability has the form that the protocol defines."""
    if shape is bool:
        return isinstance(value, bool)
    if not isinstance(value, dict):
        return False
    items = cast("Json", value).items()
    if shape is _EACH:
        return all(isinstance(item, dict) for _, item in items)
    if not isinstance(shape, dict):
        return True
    known = cast("Json", shape)
    return all(key in known and _matches_shape(item, known[key]) for key, item in items)
