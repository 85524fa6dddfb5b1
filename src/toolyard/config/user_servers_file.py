"""Adds entries to the user's servers file and preserves its other entries and comments.

New entries are appended as text. If the result would not parse as the existing entries plus the new ones (a different
format, a nested map), nothing is written, unless the caller allows the file to be rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolyard.config.clients import settings_file
from toolyard.config.clients.settings_file import SettingsContent
from toolyard.config.server_entry import ServerEntry
from toolyard.config.server_files import ServerFile, parse_server_file
from toolyard.config.server_import import entry_as_written
from toolyard.config.server_registry import REGISTRY_NAMES
from toolyard.config.settings import Settings
from toolyard.config.template import servers_block
from toolyard.core.errors import ConfigError, ToolError

_HEADER = "# Your MCP servers, by name: a configuration has them with `available_mcp_servers: [NAME, ...]`.\n"


@dataclass(frozen=True, slots=True)
class AddedServers:
    """The result of adding entries to the user's servers file."""

    path: str
    text: str
    """The content of the file after the change, or after it would have been made in a dry run."""
    names: tuple[str, ...]
    """Names of entries that were added or replaced."""
    conflicting: tuple[str, ...]
    """Names of existing entries that differ from the new ones and were left unchanged."""
    existed: bool
    backup_path: str = ""
    """The path of the backup, if the file was rewritten."""


def registry_path(settings: Settings) -> str:
    """Returns the path of the user's servers file; it need not exist."""
    paths = [os.path.join(settings.config_home, name) for name in REGISTRY_NAMES]
    return next((path for path in paths if os.path.isfile(path)), paths[0])


def add_servers(entries: Iterable[ServerEntry], settings: Settings, *, force: bool, dry_run: bool) -> AddedServers:
    """Adds the entries. With `force`, an entry may replace another of its name, and the file may be rewritten."""
    path = registry_path(settings)
    wanted = {entry.name: entry_as_written(entry) for entry in entries}
    former = settings_file.read_content(path)
    merged = _merge_servers(former, wanted, settings, force=force)
    saved_path = ""
    if not dry_run and merged.names:
        # The file is read again under its lock: another process may have written it since.
        saved_path = settings_file.update_file(
            path,
            lambda content: content.encode(_merge_servers(content, wanted, settings, force=force).text),
            should_backup=lambda _: True,
        )
    return AddedServers(path, merged.text, merged.names, merged.conflicting, former.raw is not None, saved_path)


@dataclass(frozen=True, slots=True)
class _MergeResult:
    text: str
    names: tuple[str, ...]
    conflicting: tuple[str, ...]


def _merge_servers(
    former: SettingsContent, wanted: Mapping[str, Mapping[str, Any]], settings: Settings, *, force: bool
) -> _MergeResult:
    known = _existing_entries(former, former.text, settings) if former.text.strip() else {}
    new = {name: entry for name, entry in wanted.items() if name not in known}
    other = {name: entry for name, entry in wanted.items() if name in known and known[name] != entry}
    if not new and not (other and force):
        return _MergeResult(former.text, (), tuple(other))
    if not (other and force) and (text := _append_servers(former, new, known, settings)) is not None:
        return _MergeResult(text, tuple(new), tuple(other))
    if not force:
        raise ToolError(
            f"{former.path} has a format to which entries cannot be appended; nothing was changed.",
            hint="Add them by hand, or rewrite the file with --force: a backup is made beside it.",
        )
    return _MergeResult(_rewrite_file(former.path, {**known, **new, **other}), (*new, *other), ())


def _append_servers(
    former: SettingsContent, new: Mapping[str, Mapping[str, Any]], known: Mapping[str, Any], settings: Settings
) -> str | None:
    if former.path.endswith(".json"):
        return None if known else _rewrite_file(former.path, new)
    before = former.text or _HEADER
    text = before + ("" if before.endswith("\n") else "\n") + servers_block(new)
    try:
        found = _existing_entries(former, text, settings)
    except ConfigError:
        return None
    return text if found == {**known, **new} else None


def _rewrite_file(path: str, servers: Mapping[str, Mapping[str, Any]]) -> str:
    if path.endswith(".json"):
        return json.dumps(servers, indent=2, ensure_ascii=False) + "\n"
    return _HEADER + servers_block(servers)


def _existing_entries(former: SettingsContent, text: str, settings: Settings) -> dict[str, dict[str, Any]]:
    """Returns the entries in the file's text. An unreadable entry is an error: a rewrite would lose it."""
    file: ServerFile = parse_server_file(text, former.path, home=settings.home)
    if wrong := next((problem for problem in file.problems if problem.severity == "error"), None):
        raise ConfigError(f'server "{wrong.server}" {wrong.message}', where=former.path, hint=wrong.hint)
    return {entry.name: entry_as_written(entry) for entry in file.entries}
