"""Servers that are added, changed or removed in the configuration while a session runs.

An entry is a command that is run on the host, and its file may lie where an agent can write. So a new or changed one
counts only once the user has run `toolyard sync` for it: the catalog has a hash of it. Until then a changed one stays
as it was. A removed one is gone at once. Of `in_context_tools` only what is said of added servers counts.
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
    """What a session is attached to, by the configuration as it is now."""

    resolved: ResolvedServers
    authorization: Authorization
    choices: InContextChoices
    """Its `in_context_tools`."""


class ServerChanges:
    """Looks whether the configuration, the files it includes or the catalog are other than at the last look."""

    def __init__(self, deps: CodeModeDeps) -> None:
        self._deps = deps
        self._files = self._watched_files(deps.config)
        self._stamps: tuple[_FileStamp, ...] = ()
        """Nothing yet: the files may have changed since the session began."""

    def have_changed(self) -> bool:
        """Whether anything may have changed since this was asked before. Costs a few system calls."""
        stamps = self._current_stamps()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        return True

    def next_attachment(self, current: Attachment, catalog: Catalog) -> Attachment | None:
        """What follows `current`. None where nothing can be read now: a file that is being edited, say."""
        around = self._deps
        if around.config.source is None:
            return None
        try:
            config = load_config(around.config.source)
            resolved = resolve_servers(config, around.settings)
            authorization = Authorization.for_agent(config, around.agent_id, resolved)
            synced = {server.name: server.evidence for server in catalog.servers()}
        except ToolyardError:
            return None
        if (files := self._watched_files(config)) != self._files:
            self._files, self._stamps = files, ()  # the next look reads them all once more
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
        around = self._deps
        catalog = os.path.join(around.state, FILE_NAME)
        if config.source is None:
            return catalog, f"{catalog}-wal"
        return config.source, *included_files(config, around.settings.home), catalog, f"{catalog}-wal"

    def _current_stamps(self) -> tuple[_FileStamp, ...]:
        return tuple(map(_file_stamp, self._files))


def _effective_entry(
    entry: ServerEntry, before: Mapping[str, ServerEntry], synced: Mapping[str, str]
) -> ServerEntry | None:
    """The entry that counts under this name; None for one that was added and not synced."""
    old = before.get(entry.name)
    if old is not None and is_same_entry(old, entry):
        return old
    return entry if matches_entry(synced.get(entry.name, ""), entry) else old


def _choices_of(fresh: Collection[str], said: InContextChoices, names: Iterable[str]) -> InContextChoices:
    """What `in_context_tools` says of these servers."""
    every = tuple(names)
    return {group: choice for group, choice in said.items() if server_for_code_name(group, every) in fresh}


def _file_stamp(path: str) -> _FileStamp:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino
