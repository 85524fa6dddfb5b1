"""What this server says of itself and its tools, in both eras of the protocol, without the SDK.

Every answer is what the SDK would have made of the same server, byte for byte: a client cannot tell who answered. Of
tools whose schemas the SDK would change on their way, nothing is said here.
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
# What a schema says of itself goes first on the wire, in the order in which each era's specification names it.
_HANDSHAKE_ORDER = ("$schema", "properties", "required", "type")
_MODERN_ORDER = {"inputSchema": ("$schema", "type"), "outputSchema": ("$schema",)}
_MEMORY_HINT = "There, toolyard_runtime keeps what later sessions need: memory.remember, memory.recall, save_skill. "

Json = dict[str, Any]


class ServerDescription:
    """The answers for one Yard."""

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
        """Whether clients are told of what other agents publish."""
        return self._yard.sharing is not None

    def initialize_result(self, requested: str) -> Json:
        """The answer to `initialize`: the version that was asked for, or the latest with a handshake."""
        return {
            "capabilities": _capabilities(resources=self._announces_publications, tools=self._yard.served.can_change),
            "instructions": self.instructions,
            "protocolVersion": requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "serverInfo": _IDENTITY,
        }

    def discover_result(self) -> Json:
        # Who can be listened to may tell of anything.
        listens = self._announces_publications or self._yard.served.can_change
        capabilities = _capabilities(resources=listens, tools=listens)
        return _modern_result(
            {
                **MODERN_RESULT,
                # What came with this era is said in it alone.
                "capabilities": {"extensions": {EXTENSION: {}}, **capabilities},
                "instructions": self.instructions,
                "supportedVersions": [MODERN_VERSION],
            }
        )

    def tools_list_result(self, *, structured: bool, modern: bool) -> Json | None:
        """The tools, as this client gets them. None: the SDK has to say it."""
        tools: list[Json] = []
        for tool in self._yard.dispatch.tools.values():
            said = tool_json(tool, output=structured, errors=self._yard.options.error_form)
            for schema in said.keys() & {"inputSchema", "outputSchema"}:
                if not _is_plain(said[schema]):
                    return None
                first = _MODERN_ORDER[schema] if modern else _HANDSHAKE_ORDER
                said[schema] = _with_keys_first(said[schema], first)
            tools.append(said)
        return _modern_result({**MODERN_RESULT, "tools": tools}) if modern else {"tools": tools}


def _capabilities(*, resources: bool, tools: bool) -> Json:
    return {
        "logging": {},
        "resources": {"listChanged": resources, "subscribe": resources},
        "tools": {"listChanged": tools},
    }


def _modern_result(result: Json) -> Json:
    """A result of the later era, signed."""
    return {**dict(sorted(result.items())), "_meta": {_SERVER_INFO: _IDENTITY}}


def _with_keys_first(schema: Json, first: tuple[str, ...]) -> Json:
    return {key: schema[key] for key in first if key in schema} | schema


def _is_plain(schema: Json) -> bool:
    """Whether a schema is one that the SDK passes on as it is."""
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
