"""Greeting a server in the protocol it speaks: the handshake (to 2025-11-25), or none (2026-07-28).

The handshake is offered first. Every server of the years before answers it, servers of both eras do, and some of the
older ones give up when anything else comes first. A server of the later era alone answers it with an error, and is
then asked what it is (`server/discover`).
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
    # Nothing is offered: no roots, because they would override a server's own folders; nobody to be asked.
    f"{_META}clientCapabilities": dict[str, Any](),
    f"{_META}clientInfo": CLIENT_INFO,
}
"""What every request of the later era carries in its `_meta`."""

SendRequest = Callable[[str, Mapping[str, Any]], Awaitable[object]]


async def negotiate(server: str, request: SendRequest) -> HandshakeResult:
    """Greet the server. After a handshake the caller still owes it `notifications/initialized`."""
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
            server, f"refused to be greeted: {refusal.message}", hint="Update the server, or Toolyard."
        ) from refusal
    versions = found.get("supportedVersions")
    if not isinstance(versions, list) or MODERN_VERSION not in versions:
        raise ServerMisbehaved(
            server,
            f"speaks neither {HANDSHAKE_VERSION} nor {MODERN_VERSION} of the protocol",
            hint="Update the server, or Toolyard.",
        )
    meta = found.get("_meta")
    info = cast("dict[str, Any]", meta).get(f"{_META}serverInfo") if isinstance(meta, dict) else None
    return _handshake_result(MODERN_VERSION, found, info)


def _require_object(server: str, result: object) -> dict[str, Any]:
    if not isinstance(result, dict):
        raise ServerMisbehaved(server, "answered the greeting with something that is no result")
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
