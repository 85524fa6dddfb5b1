"""Reads the server files of other programs and of the user into entries, in any supported dialect.

The file may belong to another program, so an unusable entry is reported as a problem and skipped; only a file that
cannot be read at all is an error.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import pydantic
from pydantic_core import PydanticCustomError

from toolyard.config.client_formats import (
    IGNORED_KEYS,
    LocatedServers,
    dialect_for_path,
    locate_servers,
    project_folder,
    translate_entry,
)
from toolyard.config.jsonc import parse_jsonc
from toolyard.config.key_aliases import normalize_keys
from toolyard.config.section import REFUSED, UNKNOWN_KEY
from toolyard.config.server_entry import OAuth, ServerEntry
from toolyard.config.source_text import read_text
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError
from toolyard.core.limits import MIB

MAX_FILE_BYTES: Final = 16 * MIB
"""Large, because some programs store their history in the same file."""
_APPROVAL_KEYS: Final = frozenset({"alwaysAllow", "always_allow", "autoApprove", "auto_approve", "trust"})
_HINT: Final = "Name a file that contains MCP servers, such as .mcp.json."


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A problem with a server entry. After an `error` the server is unavailable, after a `note` it is available."""

    server: str
    message: str
    hint: str = ""
    where: str = ""
    severity: Literal["error", "note"] = "error"

    @property
    def text(self) -> str:
        """The message and the hint, without the server's name."""
        stop = "" if not self.hint or self.message.endswith((".", "?", "!")) else "."
        return f"{self.message}{stop} {self.hint}".rstrip()

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f'{place}server "{self.server}": {self.text}'


@dataclass(frozen=True, slots=True)
class ServerFile:
    """The entries of a server file and the problems found in it."""

    path: str
    dialect: str
    entries: tuple[ServerEntry, ...]
    problems: tuple[ServerProblem, ...] = ()


def read_server_file(path: str, *, home: str, project: str | None = None, base: str | None = None) -> ServerFile:
    """Returns the servers of a file. `project` is the user's project, `base` the servers' working directory."""
    file = read_optional_server_file(path, home=home, project=project, base=base)
    if file is None:
        raise ConfigError("holds no MCP servers that could be recognised", where=os.path.abspath(path), hint=_HINT)
    return file


def read_optional_server_file(
    path: str, *, home: str, project: str | None = None, base: str | None = None
) -> ServerFile | None:
    """Like `read_server_file`, but returns None if the file contains no servers, as settings files may not."""
    return _servers_in_document(_read_document(path := os.path.abspath(path)), path, home, project, base)


def parse_server_file(text: str, path: str, *, home: str) -> ServerFile:
    """Returns the servers of a text that is, or will be, the content of the file `path`."""
    document = _parse_document(text, path)
    file = _servers_in_document(document, path, home, None, None) if document else ServerFile(path, "", ())
    if file is None:
        raise ConfigError("holds no MCP servers that could be recognised", where=path, hint=_HINT)
    return file


def _servers_in_document(
    document: Any, path: str, home: str, project: str | None, base: str | None
) -> ServerFile | None:
    of_project: Mapping[str, Any] = _project_servers(document, project) if project is not None else {}
    found = locate_servers(document, path)
    if found is None and of_project:
        found = LocatedServers(dialect_for_path(path), {}, {})
    if found is None:
        return None
    folder = project_folder(path)
    reader = _ServerFileReader(found, path, folder, home, base or folder)
    reader.read_servers(found.servers)
    reader.read_servers(of_project)
    return ServerFile(path, found.dialect.name, tuple(reader.entries.values()), tuple(reader.problems))


def is_server_file(path: str) -> bool:
    """Whether the file at `path` is a program's server file rather than a Toolyard configuration."""
    document = _read_document(path)
    ours = {"toolyard", "massgen", "agents", "agent", "orchestrator"}
    is_ours = isinstance(document, Mapping) and bool(ours & set(cast("Mapping[str, Any]", document)))
    return not is_ours and locate_servers(document, path) is not None


def _read_document(path: str) -> Any:
    return _parse_document(read_text(path, max_bytes=MAX_FILE_BYTES, hint=_HINT), path)


def _parse_document(text: str, path: str) -> Any:
    if path.endswith(".toml"):
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"is not valid TOML: {error}", where=path, hint="Check the place it names.") from None
    if path.endswith((".yaml", ".yml")):
        from toolyard.config.yaml_tree import parse_yaml  # most server files are JSON

        tree = parse_yaml(text, name=path)
        return None if tree is None else tree.to_plain()
    return parse_jsonc(text, name=path) if text.strip() else {}


def _project_servers(document: Any, project: str) -> Mapping[str, Any]:
    """Returns the servers that Claude Code stores for one project, under the project's path."""
    node: Any = document
    for key in ("projects", project, "mcpServers"):
        node = cast("Mapping[str, Any]", node).get(key) if isinstance(node, Mapping) else None
    return cast("Mapping[str, Any]", node) if isinstance(node, Mapping) else {}


class _ServerFileReader:
    def __init__(self, found: LocatedServers, path: str, project: str, home: str, base: str) -> None:
        self.entries: dict[str, ServerEntry] = {}
        self.problems: list[ServerProblem] = []
        self._found, self._path, self._project, self._home, self._base = found, path, project, home, base

    def read_servers(self, servers: Mapping[str, Any] | list[Any]) -> None:
        for name, raw in _named_entries(servers):
            if not isinstance(raw, Mapping):
                self._add_problem(name, "is not a mapping.", "Give it a `command` or a `url`.")
                continue
            entry = self._read_entry(name, cast("Mapping[str, Any]", raw))
            if entry is not None:
                self.entries[name] = entry

    def _read_entry(self, name: str, raw: Mapping[str, Any]) -> ServerEntry | None:
        try:
            entry = normalize_keys(translate_entry(raw, self._found, self._project, self._home))
            entry = self._drop_unknown_keys(name, entry)
            # In other programs' files, a null value means the same as a missing key.
            given = {key: value for key, value in entry.items() if value is not None}
            read = ServerEntry.model_validate({**given, "name": name})
        except pydantic.ValidationError as error:
            self._add_problem(name, *_validation_message(error))
            return None
        except PydanticCustomError as error:  # two spellings of one key
            self._add_problem(name, f"cannot be used: {error.message()}.")
            return None
        return read.model_copy(update={"base": self._base, "origin": self._path})

    def _drop_unknown_keys(self, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        """Returns the entry without unknown keys, and reports each of them."""
        known = ServerEntry.keys_of_file()
        strangers = sorted(key for key in entry if key not in known)
        ignored = [key for key in strangers if key in IGNORED_KEYS]
        if ignored:
            hint = "Use `permissions` to allow tools without approval." if set(ignored) & _APPROVAL_KEYS else ""
            self._add_problem(name, f"{_keys_with_verb(ignored)} ignored.", hint, severity="note")
        for key in strangers:
            if key not in IGNORED_KEYS:
                self._add_problem(
                    name, f"the unknown key `{key}` is ignored.", did_you_mean(key, known), severity="note"
                )
        kept = {key: value for key, value in entry.items() if key in known}
        if isinstance(kept.get("oauth"), Mapping):
            oauth = cast("Mapping[str, Any]", kept["oauth"])
            kept["oauth"] = {key: value for key, value in oauth.items() if key in OAuth.keys_of_file()}
        return kept

    def _add_problem(
        self, name: str, message: str, hint: str = "", *, severity: Literal["error", "note"] = "error"
    ) -> None:
        self.problems.append(ServerProblem(name, message, hint, self._path, severity))


def _named_entries(servers: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(servers, Mapping):
        yield from ((str(name), raw) for name, raw in servers.items())
        return
    for number, raw in enumerate(servers):
        name = cast("Mapping[str, Any]", raw).get("name") if isinstance(raw, Mapping) else None
        yield (name if isinstance(name, str) and name else f"number {number + 1}"), raw


def _validation_message(error: pydantic.ValidationError) -> tuple[str, str]:
    """Returns message and hint of the first error, without the value: it may be a secret."""
    detail = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in detail["loc"])
    context: dict[str, Any] = detail.get("ctx", {})
    if detail["type"] == UNKNOWN_KEY:
        return f"the unknown key `{context['unknown'][0]}`.", did_you_mean(context["unknown"][0], context["valid"])
    if detail["type"] == REFUSED:
        return f"cannot be used: {detail['msg']}", context.get("hint", "")
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    return f"cannot be used: {f'`{place}`: ' if place else ''}{message}.", ""


def _keys_with_verb(keys: list[str]) -> str:
    quoted = ", ".join(f"`{key}`" for key in keys)
    return f"{quoted} {'are' if len(keys) > 1 else 'is'}"
