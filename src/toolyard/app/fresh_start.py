"""`fresh: true`: an agent's session starts from an empty folder, and what was in it can be had back.

A snapshot comes first; only what it holds is removed. A Session keeps a lock in the state folder until `close()`:
where another process of the same agent is at work already, a new one joins it and empties nothing.
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
    """One process at work in a folder that starts fresh."""

    def __init__(self, state: str, workspace: str) -> None:
        path = os.path.join(state, f"session-{workspace_id(workspace)}.lock")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def is_first(self) -> bool:
        """Whether nobody else is at work. If so, others wait until `join()`."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def join(self) -> None:
        """Be at work together with others; waits for one that is emptying the folder."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)


def begin_fresh_session(
    home: AgentPaths, config: Config, settings: Settings, state: str, notify: Notify
) -> FreshSession | None:
    """Empty the agent's folder if it is to start fresh. Raises where that would be dangerous, or no snapshot can be.

    `state` is a state folder that is there, and the same for every process of the agent.
    """
    agent = next((each for each in config.agents if each.id == home.agent), None)
    if agent is None or not agent.backend.fresh:
        return None
    if home.workspace != _configured_folder(home, config, agent):
        notify(f"{home.workspace} is used as it is: `fresh: true` speaks of the agent's own folder.")
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
            notify(f"{home.workspace} is used as it is: another session of {home.agent} is at work there.")
        session.join()
    except BaseException:
        session.close()
        raise
    return session


def _configured_folder(home: AgentPaths, config: Config, agent: Agent) -> str:
    """The folder that the configuration gives the agent."""
    if agent.backend.cwd:
        return os.path.realpath(os.path.join(config.base_folder(home.workspace), agent.backend.cwd))
    return os.path.join(home.root, agent_folder(agent.id, WORKSPACE)) if home.has_layout else ""


def reason_not_to_empty(home: AgentPaths, config: Config, settings: Settings) -> str:
    """Why the agent's folder may not be emptied; empty where it may."""
    held = {
        "it holds the configuration": config.source,
        "it holds the state folder": home.state,
        "it holds your home": settings.home,
        "it holds your documents": settings.documents,
        "it holds the folder for temporary files": settings.temp_dir,
        "it holds what all agents share": home.root if home.has_layout or home.has_separate_root else None,
        "it holds the snapshots": home.snapshots_folder,
    }
    if home.workspace == "/" or home.workspace in _SYSTEM_FOLDERS:
        return "it is a folder of the system"
    found = (why for why, path in held.items() if path and is_beneath(os.path.realpath(path), home.workspace))
    return next(found, "")


def _paths_to_keep(home: AgentPaths) -> Iterator[str]:
    """Our links; in a single folder, what an agent keeps from one session to the next."""
    yield from excluded_from_snapshots(home)
    if not home.has_separate_root:
        yield from (relative_to(path, home.root) or "" for path in (home.skills, home.memory, home.tasks))
        yield from (
            generated_path(home.root, name, home.state)
            for name in (SERVERS, TOOLS)
            if is_generated(home.root, name, home.state)
        )


def _empty_folder(home: AgentPaths, ignore: Sequence[str], notify: Notify) -> None:
    """What snapshots leave out stays, and so does what is no part of the agent's work."""
    kept = tuple(_paths_to_keep(home))
    if set(os.listdir(home.workspace)) <= set(kept):
        return
    from toolyard.snapshots import DEFAULT_RULES, SnapshotStore, StoreOptions
    from toolyard.snapshots.clear import clear_folder

    options = StoreOptions(ignore=(*DEFAULT_RULES, *ignore, *(f"/{path}" for path in kept)))
    with contextlib.closing(SnapshotStore(home.snapshots_folder, options)) as store:
        done = clear_folder(store, home.workspace, agent=home.agent, reason=_REASON)
    if done.removed:
        back = f"`toolyard snapshot restore {done.before.id}` brings it back"
        notify(f"{home.workspace} was emptied for a fresh start; {back}.")
    if left := [*done.skipped, *done.failed]:
        named = ", ".join(printable_name(os.fsdecode(note.path)) for note in left[:_MAX_NAMED_PATHS])
        more = f" and {len(left) - _MAX_NAMED_PATHS} more" if len(left) > _MAX_NAMED_PATHS else ""
        notify(f"Left in {home.workspace}, because no snapshot holds it: {named}{more}.")
