"""Installs, finds and uninstalls our entry in a client's settings file.

A dry run only reads and reports; it writes nothing and takes no lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from toolyard.config.clients import install_record, settings_file
from toolyard.config.clients.clients import Client, Entry, Scope, is_toolyard_entry
from toolyard.config.clients.entry_editor import ClientDocument
from toolyard.config.clients.settings_file import SettingsContent
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError, ToolError
from toolyard.core.paths import is_beneath

InstallOutcome = Literal["added", "updated", "replaced", "unchanged", "removed", "absent"]


@dataclass(frozen=True, slots=True)
class InstallTarget:
    """A client's file, selected by client and scope, and the name of the entry in it."""

    client: Client
    scope: Scope
    settings: Settings
    folder: str
    """The project's folder."""
    name: str

    @property
    def path(self) -> str:
        """The file that has the entry, otherwise the one to add it to."""
        return self.find_file() or self.client.path(self.scope, self.settings, self.folder)

    def find_file(self) -> str:
        """Returns the file that has an entry of this name; empty if there is none."""
        for path in self.client.paths(self.scope, self.settings, self.folder):
            if self.document(settings_file.read_content(path)).entry(self.name) is not None:
                return path
        return ""

    def document(self, content: SettingsContent) -> ClientDocument:
        return ClientDocument(content.path, self.client.section, content.text)


@dataclass(frozen=True, slots=True)
class InstallReport:
    """The result of an installation or removal."""

    outcome: InstallOutcome
    path: str
    before: str = ""
    after: str = ""
    backup_path: str = ""
    """The path of the backup of the original file."""


def install(
    target: InstallTarget,
    words: tuple[str, ...],
    *,
    variables: tuple[str, ...] = (),
    tool_seconds: float | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> InstallReport:
    """Adds the entry that starts `words` to the client's file.

    `variables` are passed on to the started program; `tool_seconds` is the time limit of its tools.
    """
    path = target.path
    passed = {**target.client.env_passthrough(variables), **target.client.with_timeout(tool_seconds)}
    _check_words(target, words)
    _check_inside_project(target, path)

    def edited_content(content: SettingsContent) -> bytes | None:
        document = target.document(content)
        entry = {**target.client.entry(words), **_merge_user_values(passed, document.entry(target.name))}
        if document.has_entry(target.name, entry):
            return content.raw
        return content.encode(document.with_entry(target.name, entry, force=force))

    def is_original(content: SettingsContent) -> bool:
        document = target.document(content)
        if not is_toolyard_entry(document.entry(target.name)):
            return True
        return not settings_file.list_backups(path) and not _is_empty(
            document.without_entry(target.name, keep_section=False)
        )

    former = settings_file.read_content(path)
    new = edited_content(former)
    outcome = _install_outcome(target.document(former).entry(target.name), is_same=new == former.raw)
    saved_path = ""
    if not dry_run and outcome != "unchanged":
        has_entry = target.document(former).entry(target.name) is not None
        with install_record.record_created_files(path, target.settings.state_home, has_entry=has_entry):
            saved_path = settings_file.update_file(path, edited_content, should_backup=is_original)
    backups = settings_file.list_backups(path)
    return InstallReport(
        outcome, path, former.text, _decoded_text(former, new), saved_path or (backups[0] if backups else "")
    )


def uninstall(target: InstallTarget, *, dry_run: bool = False) -> InstallReport:
    """Removes the entry and the files and folders that were created only for it."""
    path = target.find_file()
    if not path:
        return InstallReport("absent", target.path)
    _check_inside_project(target, path)
    former = settings_file.read_content(path)
    if not is_toolyard_entry(target.document(former).entry(target.name)):
        raise ToolError(
            f'The server "{target.name}" in {path} was not installed by Toolyard; nothing was changed.',
            hint="Remove it by hand, or select another entry with --name.",
        )
    make = _entry_remover(target, path)
    new = make(former)
    if not dry_run:
        settings_file.update_file(path, make, should_backup=lambda _: False)
        if new is None:
            install_record.remove_created_folders(path, target.settings.state_home)
        _remove_redundant_backups(path, new)
    backups = settings_file.list_backups(path)
    return InstallReport("removed", path, former.text, _decoded_text(former, new), backups[0] if backups else "")


def _merge_user_values(passed: Entry, found: Any) -> dict[str, Any]:
    """Merges our keys with the user's changes to them: other or more variables, a longer tool timeout."""
    if not is_toolyard_entry(found):
        return dict(passed)
    return {key: _merge_value(value, found.get(key)) for key, value in passed.items()}


def _merge_value(ours: object, own: object) -> object:
    if isinstance(ours, dict) and isinstance(own, dict):
        return {**cast("dict[str, Any]", ours), **cast("dict[str, Any]", own)}
    if isinstance(ours, list) and isinstance(own, list):
        return list(dict.fromkeys((*cast("list[str]", own), *cast("list[str]", ours))))
    if isinstance(ours, int) and isinstance(own, (int, float)):
        return max(ours, own)
    return cast("object", ours)


def _entry_remover(target: InstallTarget, path: str) -> Callable[[SettingsContent], bytes | None]:
    originals = [_read_or_empty(backup) for backup in reversed(settings_file.list_backups(path))]
    is_made = install_record.was_created(path, target.settings.state_home)

    def content_without_entry(content: SettingsContent) -> bytes | None:
        document = target.document(content)
        entry = document.entry(target.name)
        if entry is None:
            return content.raw
        for original in originals:
            # If the file was not changed since the installation, the original is restored byte for byte.
            if _installs_to(target, original, content, entry):
                return original.raw
        had_section = any(_has_section(target, original) for original in originals)
        left = document.without_entry(target.name, keep_section=had_section)
        if not originals and _is_empty(left) and is_made:
            return None
        return content.encode(left)

    return content_without_entry


def _installs_to(target: InstallTarget, original: SettingsContent, content: SettingsContent, entry: Any) -> bool:
    """Whether installing the entry in `original` gives exactly `content`."""
    try:
        document = ClientDocument(content.path, target.client.section, original.text)
        if is_toolyard_entry(document.entry(target.name)):
            return False
        return original.encode(document.with_entry(target.name, entry, force=True)) == content.raw
    except ConfigError:
        return False


def _has_section(target: InstallTarget, original: SettingsContent) -> bool:
    try:
        # The backup's own extension does not show its format.
        path = original.path.partition(settings_file.BACKUP_SUFFIX)[0]
        return target.client.section in ClientDocument(path, target.client.section, original.text).parse()
    except ConfigError:
        return False


def _remove_redundant_backups(path: str, now: bytes | None) -> None:
    """Removes the backups that are identical to the current content."""
    for backup in settings_file.list_backups(path):
        if now is not None and _read_or_empty(backup).raw == now:
            os.unlink(backup)


def _read_or_empty(path: str) -> SettingsContent:
    try:
        return settings_file.read_content(path)
    except ConfigError:
        return SettingsContent(path)


def _is_empty(text: str) -> bool:
    return text.strip() in ("", "{}")


def _decoded_text(former: SettingsContent, new: bytes | None) -> str:
    return SettingsContent(former.path, new).text


def _install_outcome(entry: Any, *, is_same: bool) -> InstallOutcome:
    if is_same:
        return "unchanged"
    if entry is None:
        return "added"
    return "updated" if is_toolyard_entry(entry) else "replaced"


def _check_inside_project(target: InstallTarget, path: str) -> None:
    """Refuses links that lead out of a project: an untrusted project must not choose which user file is written."""
    real = os.path.realpath(path)
    if target.scope == "project" and not is_beneath(real, os.path.realpath(target.folder)):
        raise ConfigError(
            f"a link leads out of the project to {real}; nothing was changed", where=path, hint="Remove the link."
        )


def _check_words(target: InstallTarget, words: tuple[str, ...]) -> None:
    expanded = target.client.first_expanded_word(words)
    if expanded:
        raise ConfigError(
            f"{target.client.title} would expand a variable in {expanded!r}.",
            hint="Use a path without it, for example through a link to that folder.",
        )
