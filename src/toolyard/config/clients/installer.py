"""An entry of ours in a client's real file: installed, found, and taken away again.

A dry run reads and tells; it writes nothing, not even a lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from toolyard.config.clients import install_record, settings_file
from toolyard.config.clients.clients import Client, Entry, Scope, is_ours
from toolyard.config.clients.entry_editor import Document
from toolyard.config.clients.settings_file import Content
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError, ToolError
from toolyard.core.paths import is_beneath

Outcome = Literal["added", "updated", "replaced", "unchanged", "removed", "absent"]


@dataclass(frozen=True, slots=True)
class Target:
    """Whose file, which of them, and the entry's name in it."""

    client: Client
    scope: Scope
    settings: Settings
    folder: str
    """Of the project."""
    name: str

    @property
    def path(self) -> str:
        """The file that has the entry, else the one to put it in."""
        return self.found() or self.client.path(self.scope, self.settings, self.folder)

    def found(self) -> str:
        """The file that has an entry of this name; empty for none."""
        for path in self.client.paths(self.scope, self.settings, self.folder):
            if self.document(settings_file.content_of(path)).entry(self.name) is not None:
                return path
        return ""

    def document(self, content: Content) -> Document:
        return Document(content.path, self.client.section, content.text)


@dataclass(frozen=True, slots=True)
class Report:
    outcome: Outcome
    path: str
    before: str = ""
    after: str = ""
    kept: str = ""
    """Where the original lies."""


def install(
    target: Target,
    words: tuple[str, ...],
    *,
    variables: tuple[str, ...] = (),
    tool_seconds: float | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Report:
    """Put the entry that starts `words` where the client looks for it.

    `variables` are to reach what is started; `tool_seconds` is how long its tools may take.
    """
    path = target.path
    passed = {**target.client.passing(variables), **target.client.with_timeout(tool_seconds)}
    _check_words(target, words)
    _check_place(target, path)

    def made(content: Content) -> bytes | None:
        document = target.document(content)
        entry = {**target.client.entry(words), **_beside_own(passed, document.entry(target.name))}
        if document.has(target.name, entry):
            return content.raw
        return content.encoded(document.installed(target.name, entry, force=force))

    def is_original(content: Content) -> bool:
        document = target.document(content)
        if not is_ours(document.entry(target.name)):
            return True
        return not settings_file.backups_of(path) and not _is_empty(document.removed(target.name, keep_section=False))

    former = settings_file.content_of(path)
    new = made(former)
    outcome = _outcome(target.document(former).entry(target.name), is_same=new == former.raw)
    kept = ""
    if not dry_run and outcome != "unchanged":
        has_entry = target.document(former).entry(target.name) is not None
        with install_record.remembered(path, target.settings.state_home, has_entry=has_entry):
            kept = settings_file.change(path, made, keep=is_original)
    backups = settings_file.backups_of(path)
    return Report(outcome, path, former.text, _text(former, new), kept or (backups[0] if backups else ""))


def uninstall(target: Target, *, dry_run: bool = False) -> Report:
    """Take the entry away, and whatever was made for it alone."""
    path = target.found()
    if not path:
        return Report("absent", target.path)
    _check_place(target, path)
    former = settings_file.content_of(path)
    if not is_ours(target.document(former).entry(target.name)):
        raise ToolError(
            f'The server "{target.name}" in {path} is not one of Toolyard\'s; nothing was changed.',
            hint="Remove it by hand, or say with --name which entry is meant.",
        )
    make = _remover(target, path)
    new = make(former)
    if not dry_run:
        settings_file.change(path, make, keep=lambda _: False)
        if new is None:
            install_record.remove_made(path, target.settings.state_home)
        _drop_backups(path, new)
    backups = settings_file.backups_of(path)
    return Report("removed", path, former.text, _text(former, new), backups[0] if backups else "")


def _beside_own(passed: Entry, found: Any) -> dict[str, Any]:
    """Our keys, with what the user put there: other or more variables, a longer time for tools."""
    if not is_ours(found):
        return dict(passed)
    return {key: _joined(value, found.get(key)) for key, value in passed.items()}


def _joined(ours: object, own: object) -> object:
    if isinstance(ours, dict) and isinstance(own, dict):
        return {**cast("dict[str, Any]", ours), **cast("dict[str, Any]", own)}
    if isinstance(ours, list) and isinstance(own, list):
        return list(dict.fromkeys((*cast("list[str]", own), *cast("list[str]", ours))))
    if isinstance(ours, int) and isinstance(own, (int, float)):
        return max(ours, own)
    return cast("object", ours)


def _remover(target: Target, path: str) -> Callable[[Content], bytes | None]:
    originals = [_read(backup) for backup in reversed(settings_file.backups_of(path))]
    is_made = install_record.was_made(path, target.settings.state_home)

    def made(content: Content) -> bytes | None:
        document = target.document(content)
        entry = document.entry(target.name)
        if entry is None:
            return content.raw
        for original in originals:
            # Where nobody wrote the file since, it becomes what it was, to the byte.
            if _becomes(target, original, content, entry):
                return original.raw
        had_section = any(_has_section(target, original) for original in originals)
        left = document.removed(target.name, keep_section=had_section)
        if not originals and _is_empty(left) and is_made:
            return None
        return content.encoded(left)

    return made


def _becomes(target: Target, original: Content, content: Content, entry: Any) -> bool:
    """Whether installing the entry in `original` gives exactly `content`."""
    try:
        document = Document(content.path, target.client.section, original.text)
        if is_ours(document.entry(target.name)):
            return False
        return original.encoded(document.installed(target.name, entry, force=True)) == content.raw
    except ConfigError:
        return False


def _has_section(target: Target, original: Content) -> bool:
    try:
        # The backup's own name says nothing of its format.
        path = original.path.partition(settings_file.BACKUP)[0]
        return target.client.section in Document(path, target.client.section, original.text).parsed()
    except ConfigError:
        return False


def _drop_backups(path: str, now: bytes | None) -> None:
    """A backup that says what the file says again has done its work."""
    for backup in settings_file.backups_of(path):
        if now is not None and _read(backup).raw == now:
            os.unlink(backup)


def _read(path: str) -> Content:
    try:
        return settings_file.content_of(path)
    except ConfigError:
        return Content(path)


def _is_empty(text: str) -> bool:
    return text.strip() in ("", "{}")


def _text(former: Content, new: bytes | None) -> str:
    return Content(former.path, new).text


def _outcome(entry: Any, *, is_same: bool) -> Outcome:
    if is_same:
        return "unchanged"
    if entry is None:
        return "added"
    return "updated" if is_ours(entry) else "replaced"


def _check_place(target: Target, path: str) -> None:
    """A project may be a stranger's: a link in it is not to choose which file of the user's is written."""
    real = os.path.realpath(path)
    if target.scope == "project" and not is_beneath(real, os.path.realpath(target.folder)):
        raise ConfigError(
            f"a link leads out of the project, to {real}; nothing was changed", where=path, hint="Remove the link."
        )


def _check_words(target: Target, words: tuple[str, ...]) -> None:
    expanded = target.client.expands(words)
    if expanded:
        raise ConfigError(
            f"{target.client.title} would read a variable in {expanded!r}.",
            hint="Use a path without it: a link to that folder will do.",
        )
