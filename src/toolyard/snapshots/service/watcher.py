"""Watches a folder for changes by programs and people. It reports that something changed, not what.

A Watcher owns one thread and one inotify instance from `start()` to `close()`. It watches folder by folder and
follows no link, so that a link to `/` costs nothing. Folders that snapshots leave out are not watched. If a folder
cannot be watched (watchfiles is not installed, the tree is too large, the system has no watches left), that is logged
once and `is_watching` is false.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Iterable
from stat import S_ISDIR

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolyardError
from toolyard.files.temp_names import TEMPORARY_PREFIX
from toolyard.snapshots.archive.ignore_files import AcceptedRules
from toolyard.snapshots.archive.ignore_rules import IgnoreRules

MAX_FOLDERS = 10_000
"""Each watch costs the kernel about a kilobyte, and all programs of a user share one limit."""
_DEBOUNCE_MS = 500
_STEP_MS = 100
_WAKE_MS = 1_000
_CLOSE_SECONDS = 5.0
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _TooManyFolders(Exception):  # noqa: N818 - a fact about the folder
    pass


class Watcher(Closeable):
    """Watches one folder until `close()`."""

    def __init__(
        self,
        root: str,
        rules: Callable[[], Iterable[str]],
        on_change: Callable[[], None],
        log: Callable[[str], None],
        *,
        accepted: Callable[[], AcceptedRules] = lambda: AcceptedRules({}),
        max_folders: int = MAX_FOLDERS,
    ) -> None:
        """`on_change` is called in the Watcher's thread, at most a few times a second."""
        self.is_watching = False
        self.started = threading.Event()
        """Set once the Watcher watches, or has failed to start."""
        self._root = root
        self._rules = rules
        self._accepted = accepted
        self._on_change = on_change
        self._log = log
        self._max_folders = max_folders
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, folders: int) -> None:
        """Starts watching, once. `folders` is a recent count of the folders."""
        if importlib.util.find_spec("watchfiles") is None:
            self._report_unavailable("the package watchfiles is not installed (pip install 'toolyard[team]')")
        elif folders > self._max_folders:
            self._report_unavailable(f"it has more than {self._max_folders:,} folders")
        elif self._thread is None and not self._stop.is_set():
            self._thread = threading.Thread(target=self._run, name="toolyard-watching", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end, without waiting for it."""
        self._stop.set()
        self.is_watching = False

    def close(self) -> None:
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def _report_unavailable(self, why: str) -> None:
        self.is_watching = False
        if not self._stop.is_set():
            self._log(f"{self._root} is not watched for changes by other programs: {why}.")
        self.started.set()  # only after the reason is logged

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._watch_until_folder_added(
                    _watched_folders(self._root, IgnoreRules(self._rules()), self._accepted(), self._max_folders)
                )
        except _TooManyFolders:
            self._report_unavailable(f"it has more than {self._max_folders:,} folders")
        except (ToolyardError, OSError) as error:
            self._report_unavailable(str(error))
        except Exception as error:  # noqa: BLE001 - watchfiles raises its own types when the system's limits are reached
            self._report_unavailable(f"{type(error).__name__}: {error}")

    def _watch_until_folder_added(self, folders: dict[str, IgnoreRules]) -> None:
        """Watches these folders until one is added: watchfiles cannot add a folder to a running watch."""
        from watchfiles import Change, watch

        if not folders:
            raise FileNotFoundError(2, "the folder no longer exists")
        # Every option is set here, so that no environment variable overrides one.
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
            # Unreadable folders are left out already. True would also hide that no watches are left.
            ignore_permission_denied=False,
        )
        for found in changes:
            self.is_watching = not self._stop.is_set()
            self.started.set()
            if not any(self._is_relevant(path, folders) for _, path in found):
                continue
            self._on_change()
            if any(change is Change.added and _is_folder(path) for change, path in found):
                return
            if not os.path.isdir(self._root):
                raise FileNotFoundError(2, "the folder no longer exists")

    @staticmethod
    def _is_relevant(path: str, folders: dict[str, IgnoreRules]) -> bool:
        folder, _, name = path.rpartition("/")
        rules = folders.get(folder)
        if name.startswith(TEMPORARY_PREFIX):
            return False
        if rules is None:
            return True
        top = next(iter(folders))
        parts = tuple(part for part in folder[len(top) :].split("/") if part)
        is_folder = _is_folder(path)
        return not rules.ignored_names(parts, () if is_folder else (name,), (name,) if is_folder else ())


def _is_folder(path: str) -> bool:
    try:
        return S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _watched_folders(root: str, rules: IgnoreRules, accepted: AcceptedRules, limit: int) -> dict[str, IgnoreRules]:
    """Returns every folder that snapshots contain, the root first, each with its rules. Raises _TooManyFolders."""
    found: dict[str, IgnoreRules] = {}
    waiting: list[tuple[str, tuple[str, ...], IgnoreRules]] = [(root, (), rules)]
    while waiting:
        folder, parts, rules = waiting.pop()
        if len(found) >= limit:
            raise _TooManyFolders
        try:
            fd = os.open(folder, _READ)
        except OSError:
            continue  # removed or unreadable; the snapshot reports it
        try:
            with os.scandir(fd) as entries:
                listed = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
            rules = accepted.rules_for_folder(os.fsencode("/".join(parts)), rules)
        finally:
            os.close(fd)
        found[folder] = rules
        inside = [name for name, is_folder in listed.items() if is_folder]
        out = rules.ignored_names(parts, (), inside)
        waiting += [(f"{folder}/{name}", (*parts, name), rules) for name in inside if name not in out]
    return found
