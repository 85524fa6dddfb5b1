"""Describes this server and its tools for both protocol generations, without the SDK.

Every answer equals the SDK's answer byte for byte, so a client cannot tell which one answered. Tools whose schemas
the SDK would change are left to the SDK.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from toolyard import __version__
from toolyard.app.yard import Yard
from toolyard.tools.skill_resources import EXTENSION
from toolyard.transports.json_encoding import tool_json

NAME = "toolyard"
TITLE = "Toolyard"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
_IDENTITY = {"name": NAME, "title": TITLE, "version": __version__}
MODERN_RESULT = {"cacheScope": "private", "resultType": "complete", "ttlMs": 0}
# Keys that come first in a schema, in the order of each protocol's specification.
_HANDSHAKE_ORDER = ("$schema", "properties", "required", "type")
_MODERN_ORDER = {"inputSchema": ("$schema", "type"), "outputSchema": ("$schema",)}
_MEMORY_HINT = "There, toolyard_runtime keeps what later sessions need: memory.remember, memory.recall, save_skill. "

Json = dict[str, Any]


class ServerDescription:
    """Builds the answers for one Yard."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard

    @cached_property
    def instructions(self) -> str:
        if self._yard.options.tool_provider is not None:
            return self._yard.options.tool_provider.instructions
        root = self._yard.mounts.workspace.path
        finds = "search_tools" in self._yard.dispatch.tools
        upstream = (
            f"search_tools finds tools of attached servers, execute_python calls them. {_MEMORY_HINT}"
            if finds
            else ""
        )
        return (
            f"Tools for the workspace {root}. Paths may be absolute or relative to it. Commands and code run in a "
            f"sandbox that sees the workspace and has no network unless hosts were allowed. "
            f"{upstream}Permission mode: {self._yard.policy.mode.value}. Errors say what to do next."
        )

    @property
    def _announces_publications(self) -> bool:
        """Whether clients are notified of publications of other agents."""
        return self._yard.sharing is not None

    def initialize_result(self, requested: str) -> Json:
        """Returns the answer to `initialize`: the requested version, or the latest with a handshake."""
        return {
            "capabilities": _capabilities(resources=self._announces_publications, tools=self._yard.served.can_change),
            "instructions": self.instructions,
            "protocolVersion": requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "serverInfo": _IDENTITY,
        }

    def discover_result(self) -> Json:
        """Returns the answer to `server/discover`."""
        # A client that can listen may be notified of any change.
        listens = self._announces_publications or self._yard.served.can_change
        capabilities = _capabilities(resources=listens, tools=listens)
        return _modern_result(
            {
                **MODERN_RESULT,
                # Extensions exist only in this protocol.
                "capabilities": {"extensions": {EXTENSION: {}}, **capabilities},
                "instructions": self.instructions,
                "supportedVersions": [MODERN_VERSION],
            }
        )

    def tools_list_result(self, *, structured: bool, modern: bool) -> Json | None:
        """Returns the tool list for this client; None if the SDK must answer."""
        tools: list[Json] = []
        for tool in self._yard.dispatch.tools.values():
            fields = tool_json(tool, output=structured, errors=self._yard.options.error_form)
            for schema in fields.keys() & {"inputSchema", "outputSchema"}:
                if not _is_plain(fields[schema]):
                    return None
                first = _MODERN_ORDER[schema] if modern else _HANDSHAKE_ORDER
                fields[schema] = _with_keys_first(fields[schema], first)
            tools.append(fields)
        return _modern_result({**MODERN_RESULT, "tools": tools}) if modern else {"tools": tools}


def _capabilities(*, resources: bool, tools: bool) -> Json:
    return {
        "logging": {},
        "resources": {"listChanged": resources, "subscribe": resources},
        "tools": {"listChanged": tools},
    }


def _modern_result(result: Json) -> Json:
    """Returns a result of protocol 2026-07-28, with the server's identity."""
    return {**dict(sorted(result.items())), "_meta": {_SERVER_INFO: _IDENTITY}}


def _with_keys_first(schema: Json, first: tuple[str, ...]) -> Json:
    return {key: schema[key] for key in first if key in schema} | schema


def _is_plain(schema: Json) -> bool:
    """Whether the SDK passes a schema on unchanged."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        schema.get("type") == "object"
        and isinstance(schema.get("$schema", ""), str)
        and isinstance(properties, dict)
        and all(isinstance(known, dict | bool) for known in cast("Json", properties).values())
        and isinstance(required, list)
        and all(isinstance(name, str) for name in cast("list[object]", required))
        and None not in schema.values()
    )
