"""Follows changes of the configured servers while a session runs.

An entry is a command that runs on the host, and its file may be writable by an agent. A new or changed entry
therefore takes effect only after the user has run `toolyard sync` for it, which stores its hash in the catalog; until
then a changed entry keeps its old form. A removed entry is dropped immediately. Changes of `in_context_tools` apply
to added servers only.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from toolyard.codemode.catalog import FILE_NAME
from toolyard.codemode.files import server_for_code_name
from toolyard.codemode.server_fingerprint import is_same_entry, matches_entry
from toolyard.config.authorization import Authorization
from toolyard.config.included_files import included_files
from toolyard.config.loader import load_config
from toolyard.config.server_registry import ResolvedServers, resolve_servers
from toolyard.core.errors import ToolyardError

if TYPE_CHECKING:
    from toolyard.codemode.catalog import Catalog
    from toolyard.codemode.deps import CodeModeDeps
    from toolyard.config.models import Config, ServerEntry

InContextChoices = Mapping[str, Literal["*"] | tuple[str, ...]]
_FileStamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Attachment:
    """The servers that a session uses, according to the current configuration."""

    resolved: ResolvedServers
    authorization: Authorization
    choices: InContextChoices
    """Its `in_context_tools`."""


class ServerChanges:
    """Detects changes of the configuration, the files it includes, and the catalog."""

    def __init__(self, deps: CodeModeDeps) -> None:
        self._deps = deps
        self._files = self._watched_files(deps.config)
        self._stamps: tuple[_FileStamp, ...] = ()
        """Empty at first: the files may have changed since the session began."""

    def have_changed(self) -> bool:
        """Whether anything may have changed since the last call. Costs a few system calls."""
        stamps = self._current_stamps()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        return True

    def next_attachment(self, current: Attachment, catalog: Catalog) -> Attachment | None:
        """Returns the attachment that follows `current`. None if a file cannot be read, for example while it is
        edited.
        """
        deps = self._deps
        if deps.config.source is None:
            return None
        try:
            config = load_config(deps.config.source)
            resolved = resolve_servers(config, deps.settings)
            authorization = Authorization.for_agent(config, deps.agent_id, resolved)
            synced = {server.name: server.evidence for server in catalog.servers()}
        except ToolyardError:
            return None
        if (files := self._watched_files(config)) != self._files:
            self._files, self._stamps = files, ()  # the next check reads all of them again
        before = {entry.name: entry for entry in current.resolved.entries}
        entries = {entry.name: _effective_entry(entry, before, synced) for entry in resolved.entries}
        attached = tuple(entry for entry in entries.values() if entry is not None)
        fresh = {entry.name for entry in attached if entry is not before.get(entry.name)}
        return Attachment(
            replace(resolved, entries=attached),
            authorization.restricted_by(current.authorization) if fresh else current.authorization,
            {**current.choices, **_choices_of(fresh, config.toolyard.in_context_tools, entries)},
        )

    def _watched_files(self, config: Config) -> tuple[str, ...]:
        deps = self._deps
        catalog = os.path.join(deps.state, FILE_NAME)
        if config.source is None:
            return catalog, f"{catalog}-wal"
        return config.source, *included_files(config, deps.settings.home), catalog, f"{catalog}-wal"

    def _current_stamps(self) -> tuple[_FileStamp, ...]:
        return tuple(map(_file_stamp, self._files))


def _effective_entry(
    entry: ServerEntry, before: Mapping[str, ServerEntry], synced: Mapping[str, str]
) -> ServerEntry | None:
    """Returns the entry to use for this name; None if it was added and not yet synced."""
    old = before.get(entry.name)
    if old is not None and is_same_entry(old, entry):
        return old
    return entry if matches_entry(synced.get(entry.name, ""), entry) else old


def _choices_of(fresh: Collection[str], choices: InContextChoices, names: Iterable[str]) -> InContextChoices:
    """Returns the choices of `in_context_tools` for these servers."""
    every = tuple(names)
    return {group: choice for group, choice in choices.items() if server_for_code_name(group, every) in fresh}


def _file_stamp(path: str) -> _FileStamp:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino
