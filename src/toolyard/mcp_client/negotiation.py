"""Protocol negotiation: the handshake (up to 2025-11-25), or `server/discover` (2026-07-28).

The handshake comes first: all servers before 2026-07-28 and servers of both versions answer it, and some older ones
fail if anything else comes first. A server of only the later version answers it with an error, and is then sent
`server/discover`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import toolyard
from toolyard.mcp_client.connection import HandshakeResult
from toolyard.mcp_client.errors import RpcError, ServerMisbehaved

HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"

CLIENT_INFO = {"name": "toolyard", "version": toolyard.__version__}
REQUEST_META = {
    f"{_META}protocolVersion": MODERN_VERSION,
    # No capabilities: roots would override a server's own folders, and there is no user to elicit from.
    f"{_META}clientCapabilities": dict[str, Any](),
    f"{_META}clientInfo": CLIENT_INFO,
}
"""`_meta` of every request of protocol 2026-07-28."""

SendRequest = Callable[[str, Mapping[str, Any]], Awaitable[object]]


async def negotiate(server: str, request: SendRequest) -> HandshakeResult:
    """Negotiates the protocol. After a handshake the caller must send `notifications/initialized`."""
    offer = {"protocolVersion": HANDSHAKE_VERSION, "capabilities": dict[str, Any](), "clientInfo": CLIENT_INFO}
    try:
        greeting = _require_object(server, await request("initialize", offer))
    except RpcError as refusal:
        return await _discover(server, request, refusal)
    protocol = greeting.get("protocolVersion")
    if not isinstance(protocol, str):
        raise ServerMisbehaved(server, "answered `initialize` without a protocol version")
    return _handshake_result(protocol, greeting, greeting.get("serverInfo"))


async def _discover(server: str, request: SendRequest, refusal: RpcError) -> HandshakeResult:
    try:
        found = _require_object(server, await request("server/discover", {"_meta": REQUEST_META}))
    except RpcError:
        raise ServerMisbehaved(
            server, f"refused the handshake: {refusal.message}", hint="Update the server, or Toolyard."
        ) from refusal
    versions = found.get("supportedVersions")
    if not isinstance(versions, list) or MODERN_VERSION not in versions:
        raise ServerMisbehaved(
            server,
            f"supports neither {HANDSHAKE_VERSION} nor {MODERN_VERSION} of the protocol",
            hint="Update the server, or Toolyard.",
        )
    meta = found.get("_meta")
    info = cast("dict[str, Any]", meta).get(f"{_META}serverInfo") if isinstance(meta, dict) else None
    return _handshake_result(MODERN_VERSION, found, info)


def _require_object(server: str, result: object) -> dict[str, Any]:
    if not isinstance(result, dict):
        raise ServerMisbehaved(server, "answered the handshake with an invalid result")
    return cast("dict[str, Any]", result)


def _handshake_result(protocol: str, result: Mapping[str, Any], info: object) -> HandshakeResult:
    version = cast("dict[str, Any]", info).get("version") if isinstance(info, dict) else None
    instructions, capabilities = result.get("instructions"), result.get("capabilities")
    tools = cast("dict[str, Any]", capabilities).get("tools") if isinstance(capabilities, dict) else None
    return HandshakeResult(
        protocol,
        version if isinstance(version, str) else "",
        instructions if isinstance(instructions, str) else "",
        isinstance(tools, dict) and cast("dict[str, Any]", tools).get("listChanged") is True,
    )
