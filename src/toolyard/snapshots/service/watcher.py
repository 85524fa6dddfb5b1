"""Watching a folder for what programs and people change in it: a word that something changed, not what.

A Watcher owns one thread and one inotify instance from `start()` to `close()`. It watches folder by folder and
follows no link, so that a link to `/` costs nothing. What snapshots leave out is not watched. Where a folder cannot
be watched (watchfiles is not installed, the tree is too large, the system has no watches left) that is told once, and
whoever counts on it has to look for themselves: `is_watching` is false.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Iterable
from stat import S_ISDIR

from toolyard.core.closeable import Closing
from toolyard.core.errors import ToolyardError
from toolyard.files.temp_names import TEMPORARY_PREFIX
from toolyard.snapshots.archive.ignore_files import AcceptedRules
from toolyard.snapshots.archive.ignore_rules import Rules

MOST_FOLDERS = 10_000
"""Each costs the kernel about a kilobyte, and all programs of a user share what it gives them."""
_DEBOUNCE_MS = 500
_STEP_MS = 100
_WAKE_MS = 1_000
_CLOSE_SECONDS = 5.0
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _TooMany(Exception):  # noqa: N818 - a fact about the folder
    pass


class Watcher(Closing):
    def __init__(
        self,
        root: str,
        rules: Callable[[], Iterable[str]],
        changed: Callable[[], None],
        tell: Callable[[str], None],
        *,
        accepted: Callable[[], AcceptedRules] = lambda: AcceptedRules({}),
        most_folders: int = MOST_FOLDERS,
    ) -> None:
        """`changed` is called in the Watcher's thread, at most a few times a second."""
        self.is_watching = False
        self.began = threading.Event()
        """Set when it watches, or when it is known that it cannot."""
        self._root = root
        self._rules = rules
        self._accepted = accepted
        self._changed = changed
        self._tell = tell
        self._most = most_folders
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, folders: int) -> None:
        """Begin, once. `folders` is how many there were a moment ago."""
        if importlib.util.find_spec("watchfiles") is None:
            self._cannot("the package watchfiles is not installed (pip install 'toolyard[team]')")
        elif folders > self._most:
            self._cannot(f"it has more than {self._most:,} folders")
        elif self._thread is None and not self._stop.is_set():
            self._thread = threading.Thread(target=self._main, name="toolyard-watching", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Tell it to end, without waiting for that."""
        self._stop.set()
        self.is_watching = False

    def close(self) -> None:
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def _cannot(self, why: str) -> None:
        self.is_watching = False
        if not self._stop.is_set():
            self._tell(f"{self._root} is not watched for what programs change: {why}.")
        self.began.set()  # who waits for it finds it told

    def _main(self) -> None:
        try:
            while not self._stop.is_set():
                self._until_folders_are_new(_folders(self._root, Rules(self._rules()), self._accepted(), self._most))
        except _TooMany:
            self._cannot(f"it has more than {self._most:,} folders")
        except (ToolyardError, OSError) as error:
            self._cannot(str(error))
        except Exception as error:  # noqa: BLE001 - what the library raises for the system's limits is its own
            self._cannot(f"{type(error).__name__}: {error}")

    def _until_folders_are_new(self, folders: dict[str, Rules]) -> None:
        """Watch these folders until one is added: watches cannot be added to those that are there."""
        from watchfiles import Change, watch

        if not folders:
            raise FileNotFoundError(2, "the folder is gone")
        # Everything is said here, so that no variable of the environment says otherwise.
        changes = watch(
            *folders,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self._stop,
            rust_timeout=_WAKE_MS,
            yield_on_timeout=True,
            debug=False,
            raise_interrupt=False,
            force_polling=False,
            recursive=False,
            # What we may not read is not among them. With True it would also keep silent where no watches are left.
            ignore_permission_denied=False,
        )
        for found in changes:
            self.is_watching = not self._stop.is_set()
            self.began.set()
            if not any(self._counts(path, folders) for _, path in found):
                continue
            self._changed()
            if any(change is Change.added and _is_folder(path) for change, path in found):
                return
            if not os.path.isdir(self._root):
                raise FileNotFoundError(2, "the folder is gone")

    @staticmethod
    def _counts(path: str, folders: dict[str, Rules]) -> bool:
        folder, _, name = path.rpartition("/")
        rules = folders.get(folder)
        if name.startswith(TEMPORARY_PREFIX):
            return False
        if rules is None:
            return True
        top = next(iter(folders))
        parts = tuple(part for part in folder[len(top) :].split("/") if part)
        is_folder = _is_folder(path)
        return not rules.left_out(parts, () if is_folder else (name,), (name,) if is_folder else ())


def _is_folder(path: str) -> bool:
    try:
        return S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _folders(root: str, rules: Rules, accepted: AcceptedRules, most: int) -> dict[str, Rules]:
    """Every folder that snapshots hold, the root first, each with the rules for what is in it. Raises _TooMany."""
    found: dict[str, Rules] = {}
    waiting: list[tuple[str, tuple[str, ...], Rules]] = [(root, (), rules)]
    while waiting:
        folder, parts, rules = waiting.pop()
        if len(found) >= most:
            raise _TooMany
        try:
            fd = os.open(folder, _READ)
        except OSError:
            continue  # it went while we looked, or is closed to us; the walk of a snapshot says so
        try:
            with os.scandir(fd) as entries:
                listed = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
            rules = accepted.below(os.fsencode("/".join(parts)), rules)
        finally:
            os.close(fd)
        found[folder] = rules
        inside = [name for name, is_folder in listed.items() if is_folder]
        out = rules.left_out(parts, (), inside)
        waiting += [(f"{folder}/{name}", (*parts, name), rules) for name in inside if name not in out]
    return found
