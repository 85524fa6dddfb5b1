"""The folders that were made for a client's file, remembered in the state folder, so that they can go with it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Iterable
from typing import Final, cast

from toolyard.config.clients import files
from toolyard.config.clients.files import Content
from toolyard.core.errors import ConfigError

_RECORD: Final = "client-folders.json"


@contextlib.contextmanager
def remembered(path: str, state_home: str) -> Generator[None]:
    """Whatever folder is made for the file at `path` in here is remembered; with an error, it goes at once."""
    missing = [*_missing(os.path.dirname(os.path.realpath(path)))]
    try:
        yield
    except BaseException:
        _remove(missing)
        raise
    if missing:
        _note(state_home, add=missing)


def remove_made(path: str, state_home: str) -> None:
    """The folders that were made for the file, where nothing else is in them by now."""
    known = {*_known(files.content_of(os.path.join(state_home, _RECORD)))}
    above: list[str] = []
    folder = os.path.dirname(os.path.realpath(path))
    while folder in known:
        above.append(folder)
        folder = os.path.dirname(folder)
    _remove(above)
    gone = [folder for folder in above if not os.path.lexists(folder)]
    if gone:
        _note(state_home, drop=gone)


def _missing(folder: str) -> Generator[str]:
    """Deepest first."""
    while not os.path.lexists(folder):
        yield folder
        folder = os.path.dirname(folder)


def _remove(folders: Iterable[str]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # something is in it, or it was never made
            os.rmdir(folder)


def _note(state_home: str, *, add: Iterable[str] = (), drop: Iterable[str] = ()) -> None:
    gone = {*drop}

    def made(content: Content) -> bytes | None:
        kept = [folder for folder in dict.fromkeys((*_known(content), *add)) if folder not in gone]
        return json.dumps(kept, indent=1).encode() if kept else None

    files.change(os.path.join(state_home, _RECORD), made, keep=lambda _: False)


def _known(content: Content) -> list[str]:
    """What the record says; one that cannot be read says nothing, and no folder is removed."""
    try:
        found = json.loads(content.text or "[]")
    except (ValueError, ConfigError):
        return []
    return [each for each in cast("list[object]", found) if isinstance(each, str)] if isinstance(found, list) else []
