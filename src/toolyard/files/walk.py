"""Lists everything in a folder without exception, for policy checks before the folder is moved.

Unlike a listing it hides nothing and follows no link. It raises rather than leave anything out: a folder that is
unreadable, or contains too much, is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from toolyard.core.errors import ToolError
from toolyard.files.os_errors import explain, printable_name
from toolyard.files.roots import Root

MAX_ENTRIES = 200_000


def walk_entries(root: Root, start: str, check_time: Callable[[], None]) -> Iterator[str]:
    """Yields the path of every entry beneath `start`, relative to it. `check_time` may raise between folders."""
    waiting = [""]
    count = 0
    while waiting:
        check_time()
        inside = waiting.pop()
        for name, is_folder in _entries(root, os.path.join(start, inside)):
            path = os.path.join(inside, name)
            count += 1
            if count > MAX_ENTRIES:
                raise ToolError(
                    f"{printable_name(start)} holds more than {MAX_ENTRIES:,} files and folders.",
                    hint="Do it in smaller parts.",
                )
            if is_folder:
                waiting.append(path)
            yield path


def _entries(root: Root, folder: str) -> list[tuple[str, bool]]:
    try:
        fd = root.open_folder(folder)
        try:
            with os.scandir(fd) as entries:
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        finally:
            os.close(fd)
    except OSError as error:
        raise explain(error, printable_name(folder)) from error
