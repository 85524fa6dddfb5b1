"""The configuration entry of one upstream MCP server.

An entry keeps the text of its file: `${VAR}` is expanded only by `expansion.expand_entry`, when the server is
started. A missing variable therefore affects only one server, and an entry that is displayed, compared or stored
contains no secret that its file does not. `repr` also omits everything that may contain a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from toolyard.config.key_aliases import normalize_keys
from toolyard.config.section import REFUSED, Seconds, Section, expected_error

ENTRY_TAG = "<server entry>"
NAME_TAG = "<server name>"
EVERY_SERVER = "*"
"""The bare name that means every server in the user's servers file."""
MAX_NAME_CHARS = 200

Transport = Literal["stdio", "streamable-http", "sse"]


def _check_command(value: Any) -> Any:
    """Validates a command: a string, or a list of strings."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        words = tuple(cast("list[object]", value))
        if words and all(isinstance(word, str) for word in words):
            return words
    raise expected_error("a string or a list of strings")


def _stringify_booleans(value: Any) -> Any:
    """Converts booleans to text: YAML reads `true` as a boolean, but a process environment contains only text."""
    if not isinstance(value, Mapping):
        return value
    items = cast("Mapping[str, Any]", value).items()
    return {key: str(item).lower() if isinstance(item, bool) else item for key, item in items}


def _servers_as_list(value: Any) -> Any:
    """Converts a map of servers by name to a list of entries in the same order.

    An entry with only a name becomes the bare name.
    """
    if value is None:
        return ()
    if value == EVERY_SERVER:
        return (EVERY_SERVER,)
    if isinstance(value, (list, tuple)):
        return [_bare_name(item) or item for item in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        return value
    entries: list[object] = []
    for name, entry in cast("Mapping[str, object]", value).items():
        if entry is None:
            entries.append(name)
        elif isinstance(entry, Mapping):
            entries.append({**cast("Mapping[str, object]", entry), "name": name})
        else:
            entries.append(entry)
    return entries


def _bare_name(entry: object) -> str:
    if not isinstance(entry, Mapping):
        return ""
    keys = cast("Mapping[str, object]", entry)
    name = keys.get("name")
    return name if len(keys) == 1 and isinstance(name, str) else ""


def _entry_tag(value: Any) -> str:
    return NAME_TAG if isinstance(value, str) else ENTRY_TAG


def _url_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets without an address in them
        return ""


class OAuth(Section):
    """OAuth client settings for a remote server's authorization server; without them the client registers itself."""

    enabled: bool = True
    client_id: str | None = None
    client_secret: str | None = Field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    redirect_uri: str | None = None
    redirect_port: Annotated[int, Field(gt=0, lt=65536)] | None = None


class ServerEntry(Section):
    """An upstream MCP server."""

    internal = frozenset({"base", "origin"})

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
    type: Transport | None = None
    command: Annotated[str | tuple[str, ...] | None, BeforeValidator(_check_command)] = None
    """The program, or the program and its first arguments as a list. A string is never split."""
    args: tuple[str, ...] = ()
    env: Annotated[Mapping[str, str], BeforeValidator(_stringify_booleans)] = Field(default_factory=dict)
    env_file: str | None = None
    """A file of `NAME=value` lines; `env` takes precedence over it."""
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = Field(default_factory=dict)
    oauth: OAuth | None = None
    timeout: Seconds | None = None
    """Time limit of one call in seconds."""
    startup_timeout: Seconds | None = None
    """Time limit in seconds until the server has answered the handshake."""
    allowed_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    disabled: bool = False
    description: str = ""
    """The purpose of the server in the user's words, for readers of the file."""
    pinned: bool = True
    """Whether a tool that changed since it was accepted is withheld until it is accepted again."""
    shared: bool = True
    """Whether the agents of a run share one process. A server with per-client state needs one process per agent."""
    base: str = ""
    """The folder of its file: the base of relative paths and, without `cwd`, the server's working directory."""
    origin: str = ""
    """The file that declares it, for messages."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _normalize_raw_keys(cls, raw: Any) -> Any:
        return normalize_keys(cast("Mapping[str, Any]", raw)) if isinstance(raw, Mapping) else raw

    @model_validator(mode="after")
    def _check_reachable(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise expected_error("either `command` (a local server) or `url` (a remote one)")
        if self.type is not None and (self.type == "stdio") != (self.command is not None):
            raise expected_error(f"a `type` that goes with `{'command' if self.command is not None else 'url'}`")
        if not self.name.isprintable():
            raise expected_error("a `name` of printable characters")
        if "__" in self.name or self.name.startswith("_") or self.name.endswith("_"):
            # In `mcp__server__tool` the boundary between server and tool would be ambiguous.
            message = "a server name must not contain `__`, nor start or end with `_`."
            better = re.sub("__+", "_", self.name).strip("_")
            hint = f"Call it `{better}`." if better else "Give it another name."
            raise PydanticCustomError(REFUSED, message, {"hint": hint})
        return self

    @property
    def transport(self) -> Transport:
        """`type`, or if omitted, the transport that `command` or `url` implies."""
        if self.type is not None:
            return self.type
        if self.url is None:
            return "stdio"
        return "sse" if re.match(r"[^?#]*/sse/?(?:[?#]|$)", self.url) else "streamable-http"

    @property
    def command_line(self) -> tuple[str, ...]:
        """The program and all its arguments; empty for a remote server."""
        if self.command is None:
            return ()
        return ((self.command,) if isinstance(self.command, str) else self.command) + self.args

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Yields only fields without secrets: arguments and URLs may contain tokens too."""
        yield "name", self.name
        yield "transport", self.transport
        if self.command is not None:
            yield "program", self.command_line[0]
        else:
            yield "host", _url_host(self.url or "")
        yield "origin", self.origin


Servers = Annotated[
    tuple[
        Annotated[Annotated[ServerEntry, Tag(ENTRY_TAG)] | Annotated[str, Tag(NAME_TAG)], Discriminator(_entry_tag)],
        ...,
    ],
    BeforeValidator(_servers_as_list),
]
"""Full entries and bare names of the user's servers file, from a list or from a map by name."""
