"""The `.toolyardignore` files that apply: those that the user accepted, with the text that they had then.

An agent can write such a file, and change or move one of the user's. So the text that applies does not come from the
workspace: accepting a file copies it into the store's folder, and a later version in the workspace is a proposal
without effect. The record is one JSON file, read with every walk and replaced as a whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from toolyard.core.errors import SystemFault
from toolyard.files.root_folder import RootFolder, join_path
from toolyard.snapshots.archive.ignore_rules import IGNORE_FILE, MAX_IGNORE_FILE_BYTES, IgnoreRules
from toolyard.snapshots.store.layout import accepted_rules_path


class AcceptedRules:
    """The accepted rules of one root, and the files of a walk that differ from them."""

    def __init__(self, texts: Mapping[bytes, bytes]) -> None:
        """`texts` has the accepted text of each folder, by its path."""
        self.texts = texts
        self.proposals: list[bytes] = []
        """Folders of the walk whose ignore file differs from the accepted text."""

    @classmethod
    def load(cls, store: str, root: str) -> AcceptedRules:
        """Loads what the user accepted for `root`. Raises SystemFault if the record cannot be read."""
        return cls(_read_accepted(store).get(root, {}))

    def rules_for_folder(self, folder: bytes, rules: IgnoreRules, fd: int | None = None) -> IgnoreRules:
        """Returns `rules` and those accepted for this folder. `fd` is the folder, if it has an ignore file."""
        text = self.texts.get(folder)
        if fd is not None and read_rules(fd) not in {None, text}:
            self.proposals.append(folder)
        return rules if text is None else rules.with_folder_rules(folder.count(b"/") + 1 if folder else 0, text)


def read_rules(fd: int) -> bytes | None:
    """Returns the text of the ignore file in an open folder; None if there is no regular file."""
    with suppress(OSError):
        own = os.open(IGNORE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        try:
            return os.read(own, MAX_IGNORE_FILE_BYTES)
        finally:
            os.close(own)
    return None


def ignore_files(root: RootFolder) -> Iterator[tuple[bytes, bytes]]:
    """Yields every ignore file below `root`: the path of its folder, and its text."""
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        try:
            fd = root.open(folder)
        except OSError:
            continue
        try:
            with os.scandir(fd) as entries:
                inside = sorted(os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False))
            text = read_rules(fd)
        finally:
            os.close(fd)
        if text is not None:
            yield folder, text
        waiting += (join_path(folder, name) for name in reversed(inside))


def record_accepted(store: str, root: str, folder: bytes, text: bytes | None) -> None:
    """Accepts `text` as the rules of a folder; None withdraws its rules."""
    every = _read_accepted(store)
    texts = dict(every.get(root, {}))
    if text is None:
        texts.pop(folder, None)
    else:
        texts[folder] = text
    every[root] = texts
    record = {
        rooted: {os.fsdecode(path): os.fsdecode(rules) for path, rules in by_folder.items()}
        for rooted, by_folder in every.items()
    }
    path = accepted_rules_path(store)
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(record, file)
    os.replace(f"{path}.new", path)


def _read_accepted(store: str) -> dict[str, Mapping[bytes, bytes]]:
    path = accepted_rules_path(store)
    try:
        with open(path, "rb") as file:
            raw: Any = json.load(file)
        every = cast("dict[str, dict[str, str]]", raw)
        return {
            root: {os.fsencode(folder): os.fsencode(text) for folder, text in texts.items()}
            for root, texts in every.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise SystemFault(
            f"The record of accepted ignore rules, {path}, cannot be read: {error}.",
            hint="Remove it, then accept your rules again with `toolyard snapshot ignore --accept PATH`.",
        ) from error
