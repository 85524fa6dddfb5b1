"""Implements `fresh: true`: an agent's session starts with an empty folder, which can be restored.

A snapshot is taken first, and only files that it holds are removed. A FreshSession holds a lock in the state folder
until `close()`: a second process of the same agent joins the session and empties nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from toolyard.app.agent_setup import excluded_from_snapshots
from toolyard.codemode.generated_folder import SERVERS, TOOLS, generated_path, is_generated
from toolyard.core.agent_folder_names import WORKSPACE, agent_folder
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ConfigError
from toolyard.core.ids import workspace_id
from toolyard.core.paths import is_beneath, relative_to
from toolyard.files.os_errors import printable_name

if TYPE_CHECKING:
    from toolyard.config.models import Agent, Config
    from toolyard.config.settings import Settings
    from toolyard.workspace.agent_paths import AgentPaths

_REASON = "before a fresh start"
_MAX_NAMED_PATHS = 3  # of what stayed
_SYSTEM_FOLDERS = frozenset(
    {"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root"}
    | {"/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var"}  # noqa: S108 - named to be left alone
)

Notify = Callable[[str], None]


class FreshSession(Closeable):
    """The lock of one process that works in a folder with `fresh: true`."""

    def __init__(self, state: str, workspace: str) -> None:
        path = os.path.join(state, f"session-{workspace_id(workspace)}.lock")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def close(self) -> None:
        """Releases the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def is_first(self) -> bool:
        """Tries to take the exclusive lock. While this process holds it, others wait in `join()`."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def join(self) -> None:
        """Switches to the shared lock; waits for a process that is emptying the folder."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)


def begin_fresh_session(
    home: AgentPaths, config: Config, settings: Settings, state: str, notify: Notify
) -> FreshSession | None:
    """Empties the agent's folder if it is configured with `fresh: true`; returns None otherwise.

    `state` is an existing state folder that all processes of the agent share. Raises ConfigError if emptying the
    folder would be dangerous, and the error of the snapshot if none can be taken.
    """
    agent = next((each for each in config.agents if each.id == home.agent), None)
    if agent is None or not agent.backend.fresh:
        return None
    if home.workspace != _configured_folder(home, config, agent):
        notify(f"{home.workspace} is not emptied: `fresh: true` applies to the agent's own folder only.")
        return None
    if why := reason_not_to_empty(home, config, settings):
        raise ConfigError(
            f"{home.workspace} cannot be emptied for a fresh start: {why}.",
            where=config.source or "",
            hint="Give the agent a `cwd` of its own, or leave out `fresh: true`.",
        )
    session = FreshSession(state, home.workspace)
    try:
        if session.is_first():
            _empty_folder(home, config.snapshots.ignore, notify)
        else:
            notify(f"{home.workspace} is not emptied: another session of {home.agent} is using it.")
        session.join()
    except BaseException:
        session.close()
        raise
    return session


def _configured_folder(home: AgentPaths, config: Config, agent: Agent) -> str:
    """Returns the folder that the configuration assigns to the agent; empty without one."""
    if agent.backend.cwd:
        return os.path.realpath(os.path.join(config.base_folder(home.workspace), agent.backend.cwd))
    return os.path.join(home.root, agent_folder(agent.id, WORKSPACE)) if home.has_layout else ""


def reason_not_to_empty(home: AgentPaths, config: Config, settings: Settings) -> str:
    """Returns why the agent's folder must not be emptied; empty if it may be."""
    held = {
        "it contains the configuration": config.source,
        "it contains the state folder": home.state,
        "it contains your home": settings.home,
        "it contains your documents": settings.documents,
        "it contains the folder for temporary files": settings.temp_dir,
        "it contains what all agents share": home.root if home.has_layout or home.has_separate_root else None,
        "it contains the snapshots": home.snapshots_folder,
    }
    if home.workspace == "/" or home.workspace in _SYSTEM_FOLDERS:
        return "it is a system folder"
    found = (why for why, path in held.items() if path and is_beneath(os.path.realpath(path), home.workspace))
    return next(found, "")


def _paths_to_keep(home: AgentPaths) -> Iterator[str]:
    """Yields our links and, without a layout, what an agent keeps between sessions."""
    yield from excluded_from_snapshots(home)
    if not home.has_separate_root:
        yield from (relative_to(path, home.root) or "" for path in (home.skills, home.memory, home.tasks))
        yield from (
            generated_path(home.root, name, home.state)
            for name in (SERVERS, TOOLS)
            if is_generated(home.root, name, home.state)
        )


def _empty_folder(home: AgentPaths, ignore: Sequence[str], notify: Notify) -> None:
    """Takes a snapshot and removes the files that it holds. Excluded files and the agent's own data stay."""
    excluded = tuple(_paths_to_keep(home))
    if set(os.listdir(home.workspace)) <= set(excluded):
        return
    from toolyard.snapshots import DEFAULT_RULES, SnapshotStore, StoreOptions
    from toolyard.snapshots.clear import clear_folder

    options = StoreOptions(ignore=(*DEFAULT_RULES, *ignore, *(f"/{path}" for path in excluded)))
    with contextlib.closing(SnapshotStore(home.snapshots_folder, options)) as store:
        done = clear_folder(store, home.workspace, agent=home.agent, reason=_REASON)
    if done.removed:
        back = f"`toolyard snapshot restore {done.before.id}` brings it back"
        notify(f"{home.workspace} was emptied for a fresh start; {back}.")
    if left := [*done.skipped, *done.failed]:
        named = ", ".join(printable_name(os.fsdecode(note.path)) for note in left[:_MAX_NAMED_PATHS])
        more = f" and {len(left) - _MAX_NAMED_PATHS} more" if len(left) > _MAX_NAMED_PATHS else ""
        notify(f"Left in {home.workspace}, because the snapshot does not contain it: {named}{more}.")
