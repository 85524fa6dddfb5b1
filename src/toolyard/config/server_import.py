"""Imports the MCP servers of other programs into one of our files.

A source is a file, or the name of a client whose user and project files are looked up. Nothing is started, and no
file of another program is changed. An unusable entry is reported as a problem and does not affect the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolyard.config.clients.clients import CLIENTS, is_toolyard_entry
from toolyard.config.secret_extraction import ExtractedSecret, SecretExtractor
from toolyard.config.server_entry import ServerEntry
from toolyard.config.server_files import ServerFile, ServerProblem, read_optional_server_file, read_server_file
from toolyard.config.settings import Settings
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError

_FILE_VARIABLE: Final = re.compile(r"\$\{file:(?P<path>[^}]+)\}")
_LOADER_KEYS: Final = frozenset({"name", "base", "origin"})


@dataclass(frozen=True, slots=True)
class ImportedServers:
    """The servers imported from other programs' files."""

    entries: tuple[ServerEntry, ...]
    """The entries to write: without secrets, and with paths that work from the target folder."""
    problems: tuple[ServerProblem, ...]
    extracted_secrets: tuple[ExtractedSecret, ...]
    files: tuple[str, ...]
    """The files they come from."""


def import_servers(sources: Sequence[str], settings: Settings, *, project: str, folder: str) -> ImportedServers:
    """Returns the servers of all sources without duplicate names; `folder` is where they will be written."""
    found: dict[str, ServerEntry] = {}
    problems: list[ServerProblem] = []
    files: list[str] = []
    for source in sources:
        for file in _source_files(source, settings, project):
            if file.path in files:
                continue
            files.append(file.path)
            problems.extend(file.problems)
            for entry in file.entries:
                problems.extend(_add_entry(entry, found))
    withholding = SecretExtractor()
    entries = tuple(
        withholding.entry_without_secrets(_relocate_entry(entry, folder, settings.home)) for entry in found.values()
    )
    return ImportedServers(entries, tuple(problems), tuple(withholding.extracted), tuple(files))


def entry_as_written(entry: ServerEntry) -> dict[str, Any]:
    """Returns the keys of an entry as they are written below its name."""
    return _plain_value(entry.model_dump(exclude_defaults=True, exclude=set(_LOADER_KEYS)))


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_value(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [_plain_value(item) for item in value] if isinstance(value, (list, tuple)) else value  # pyright: ignore[reportUnknownVariableType]


def _source_files(source: str, settings: Settings, project: str) -> Iterable[ServerFile]:
    if source not in CLIENTS:
        path = settings.home + source[1:] if source.startswith("~/") else os.path.join(project, source)
        if not os.path.lexists(path) and os.sep not in source and "." not in source:
            raise ConfigError(f"there is no file or client named {source!r}.", hint=did_you_mean(source, CLIENTS))
        return [read_server_file(path, home=settings.home, project=project)]
    client = CLIENTS[source]
    places = (*client.paths("user", settings, project), *client.paths("project", settings, project))
    there = [
        read_optional_server_file(path, home=settings.home, project=project)
        for path in places
        if os.path.isfile(path)
    ]
    read = [file for file in there if file is not None]
    if not any(file.entries or file.problems for file in read):
        raise ConfigError(
            f"{client.title} has no MCP servers here: looked in {', '.join(places)}.",
            hint="Name the file that holds them: --from FILE.",
        )
    return read


def _add_entry(entry: ServerEntry, found: dict[str, ServerEntry]) -> Iterable[ServerProblem]:
    words = entry.command_line
    if words and is_toolyard_entry({"command": words[0], "args": [*words[1:]]}):
        message = "is Toolyard itself, which would serve its own tools again; it is skipped."
        yield ServerProblem(entry.name, message, where=entry.origin, severity="note")
        return
    before = found.setdefault(entry.name, entry)
    if before is not entry and entry_as_written(before) != entry_as_written(entry):
        message = f"is also in {before.origin} with different settings; that entry is used."
        yield ServerProblem(entry.name, message, where=entry.origin, severity="note")


def _relocate_entry(entry: ServerEntry, folder: str, home: str) -> ServerEntry:
    """Returns the entry with relative paths rewritten so that it refers to the same files from `folder`."""
    base = entry.base
    if not base or os.path.realpath(base) == os.path.realpath(folder):
        return entry

    def absolute(path: str) -> str:
        if path.startswith(("~", "${")):
            return path
        return os.path.normpath(os.path.join(base, path))

    def rewrite_file_variables(value: str) -> str:
        return _FILE_VARIABLE.sub(lambda found: f"${{file:{absolute(found['path'])}}}", value)

    changes: dict[str, Any] = {
        "env": {name: rewrite_file_variables(value) for name, value in entry.env.items()},
        "headers": {name: rewrite_file_variables(value) for name, value in entry.headers.items()},
    }
    if entry.env_file is not None:
        changes["env_file"] = absolute(entry.env_file)
    if entry.cwd is not None:
        changes["cwd"] = absolute(entry.cwd)
    elif any(_is_relative_file(word, base) for word in entry.command_line):
        changes["cwd"] = "~" if base == home else base
    return entry.model_copy(update=changes)


def _is_relative_file(word: str, base: str) -> bool:
    """Whether a word of the command line is a path relative to `base`."""
    if os.path.isabs(word) or word.startswith("-"):
        return False
    return word.startswith(("./", "../")) or word in {".", ".."} or os.path.lexists(os.path.join(base, word))
