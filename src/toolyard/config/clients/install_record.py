"""Records the files and folders that install creates, so that uninstall removes exactly those.

The record is a JSON file in the state folder.
"""

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
    """Records the file `path` and its parent folders if the block creates them; removes the folders on an error.

    If the file already exists without our entry, an earlier record of it is dropped: it is now another program's.
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
    """Whether install created the file; False if there is no record of it."""
    return os.path.realpath(path) in _recorded_paths(settings_file.read_content(_record_path(state_home)))


def remove_created_folders(path: str, state_home: str) -> None:
    """Removes the folders that install created for a file that is now gone, if they are empty."""
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
    """Yields the path and its parents that do not exist, deepest first."""
    while not os.path.lexists(path):
        yield path
        path = os.path.dirname(path)


def _remove_folders(folders: Iterable[str]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # it is not empty, was never created, or is a file
            os.rmdir(folder)


def _update_record(state_home: str, *, add: Iterable[str] = (), drop: Iterable[str] = ()) -> None:
    gone = {*drop}

    def updated_record(content: SettingsContent) -> bytes | None:
        kept = [folder for folder in dict.fromkeys((*_recorded_paths(content), *add)) if folder not in gone]
        return json.dumps(kept, indent=1).encode() if kept else None

    settings_file.update_file(_record_path(state_home), updated_record, should_backup=lambda _: False)


def _recorded_paths(content: SettingsContent) -> list[str]:
    """Returns the recorded paths. An unreadable record counts as empty, so that no folder is removed."""
    try:
        found = json.loads(content.text or "[]")
    except (ValueError, ConfigError):
        return []
    return [each for each in cast("list[object]", found) if isinstance(each, str)] if isinstance(found, list) else []
