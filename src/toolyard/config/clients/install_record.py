"""The files and folders that install made, remembered in the state folder, so that they alone go with the entry."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Iterable
from typing import Final, cast

from toolyard.config.clients import settings_file
from toolyard.config.clients.settings_file import SettingsContent
from toolyard.core.errors import ConfigError

_RECORD_NAME: Final = "client-folders.json"


@contextlib.contextmanager
def record_created_files(path: str, state_home: str, *, has_entry: bool) -> Generator[None]:
    """Whatever is made at `path` and above it in here is remembered; with an error, the folders go at once.

    A file that is there already is somebody else's from now on, whoever made one of that name before.
    """
    file = os.path.realpath(path)
    missing = [*_missing_paths(file)]
    try:
        yield
    except BaseException:
        _remove_folders(missing)
        raise
    if missing:
        _update_record(state_home, add=missing)
    elif not has_entry and was_created(path, state_home):
        _update_record(state_home, drop=[file])


def was_created(path: str, state_home: str) -> bool:
    """Whether install made the file: where nobody knows, it did not."""
    return os.path.realpath(path) in _recorded_paths(settings_file.read_content(_record_path(state_home)))


def remove_created_folders(path: str, state_home: str) -> None:
    """The folders that were made for a file that is gone, where nothing else is in them by now."""
    known = {*_recorded_paths(settings_file.read_content(_record_path(state_home)))}
    made = [os.path.realpath(path)]
    while (folder := os.path.dirname(made[-1])) in known:
        made.append(folder)
    _remove_folders(made[1:])
    gone = [each for each in made if each in known and not os.path.lexists(each)]
    if gone:
        _update_record(state_home, drop=gone)


def _record_path(state_home: str) -> str:
    return os.path.join(state_home, _RECORD_NAME)


def _missing_paths(path: str) -> Generator[str]:
    """Deepest first."""
    while not os.path.lexists(path):
        yield path
        path = os.path.dirname(path)


def _remove_folders(folders: Iterable[str]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # something is in it, it was never made, or it is a file
            os.rmdir(folder)


def _update_record(state_home: str, *, add: Iterable[str] = (), drop: Iterable[str] = ()) -> None:
    gone = {*drop}

    def updated_record(content: SettingsContent) -> bytes | None:
        kept = [folder for folder in dict.fromkeys((*_recorded_paths(content), *add)) if folder not in gone]
        return json.dumps(kept, indent=1).encode() if kept else None

    settings_file.update_file(_record_path(state_home), updated_record, should_backup=lambda _: False)


def _recorded_paths(content: SettingsContent) -> list[str]:
    """What the record says; one that cannot be read says nothing, and no folder is removed."""
    try:
        found = json.loads(content.text or "[]")
    except (ValueError, ConfigError):
        return []
    return [each for each in cast("list[object]", found) if isinstance(each, str)] if isinstance(found, list) else []
