"""The sandboxes of one workspace: started on first use, from the policy and the configuration.

There are at most two for the caller's commands: a writable one, and a read-only one for plan mode. Our own programs
use others (`get_read_only_sandbox`). If the set of hidden files has changed since a sandbox was started, for example
because somebody added a file that a rule hides, the next run gets a new sandbox.

`SandboxManager` owns the sandboxes and the background commands in them; `close()` ends all of them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.limits import RunLimits
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.builder import runs_on_host
from toolyard.policy.policy import Policy
from toolyard.policy.sandbox_rules import SandboxRules
from toolyard.sandbox.background_commands import BackgroundCommands
from toolyard.sandbox.file_visibility import FileVisibility
from toolyard.sandbox.spec import Mount, Sandbox, SandboxSpec, Tier

if TYPE_CHECKING:
    from toolyard.config.models import CodeExecution
    from toolyard.config.settings import Settings
    from toolyard.sandbox.selection import SandboxChoice

RETRY_STRONGER_SECONDS = 5.0
"""Time between two checks whether a stronger sandbox is available again."""
_FOLDER_CHARS = 4_095
_MAX_REFUSED_HOSTS = 20
_MAX_READ_ONLY_SANDBOXES = 8  # for our own programs; the oldest is closed first
_MAX_SESSION_FOLDERS = 1_000  # the least recently used session starts in the workspace again
_REPLACED = "The sandbox was replaced, because {reason}: /tmp, sessions and background commands are gone."
_CHANGED = "its hidden or protected files have changed"
_STRONGER = "a stronger one is available again"

Chooser = Callable[[], "SandboxChoice"]
OnConnection = Callable[[str, int, bool], None]


@dataclass(frozen=True, slots=True)
class ReadySandbox:
    """A started sandbox, and the note that each result has to carry."""

    sandbox: Sandbox
    spec: SandboxSpec
    note: str
    is_provisional: bool = False
    """Whether a stronger tier failed for a transient reason when this one was started."""

    def matches_spec(self, spec: SandboxSpec) -> bool:
        """Whether a new sandbox would get the same spec. Ignores sockets: newer ones may be the sandbox's own."""
        return replace(spec, special=self.spec.special) == self.spec


@dataclass(frozen=True, slots=True)
class CodeModeAttachment:
    """What code mode adds to a sandbox."""

    broker_folder: Callable[[], str]
    """Returns the folder of the agent's broker, which is created on the first call."""
    agent: str
    packages: str
    """The folder that `servers`, `tools` and `skills` are imported from."""
    skills: tuple[str, ...] = ()
    """The name of the folder with the agent's own skills, then folders with other skills."""

    def environment(self) -> dict[str, str]:
        skills = (path for path in self.skills if os.pathsep not in path)
        return {"TOOLYARD_AGENT": self.agent, "TOOLYARD_SKILLS": os.pathsep.join(skills)}


class SandboxManager(Closeable):
    """Starts, reuses and replaces the sandboxes of one workspace. Thread-safe."""

    def __init__(
        self,
        policy: Policy,
        execution: CodeExecution,
        state: str,
        choose: Chooser,
        on_connection: OnConnection,
        *,
        socket_folders: Sequence[str] = (),
        records_changes: bool = False,
    ) -> None:
        """`socket_folders` contain sockets of other programs and are never visible in a sandbox.

        `records_changes`: other agents may work in the same folders.
        """
        self.records_changes = records_changes
        self.background_commands = BackgroundCommands()
        self._code_mode: CodeModeAttachment | None = None
        self.limits: RunLimits = execution.limits.to_limits()
        self._policy = policy
        self._execution = execution
        self._choose = choose
        self._on_connection = on_connection
        self._rules = SandboxRules(policy)
        self._visibility = FileVisibility(policy, self._rules, state, socket_folders)
        self._sandboxes: dict[bool | tuple[Mount, ...], ReadySandbox] = {}
        """By writability, for commands; by the extra mounts, for our own programs."""
        self._retry_stronger_at = 0.0
        self._lock = threading.Lock()
        self._session_folders: dict[str, str] = {}
        self._is_closed = False
        self._refused_hosts: deque[str] = deque(maxlen=_MAX_REFUSED_HOSTS)

    def attach(
        self, broker_folder: Callable[[], str], agent: str, packages: str, skills: tuple[str, ...] = ()
    ) -> None:
        """Connects sandboxes to code mode, so that code inside can call tools.

        Call it before the first one is started.
        """
        self._code_mode = CodeModeAttachment(broker_folder, agent, packages, skills)

    @property
    def is_sandboxed(self) -> bool:
        """Whether the configuration and the mode run commands in a sandbox."""
        return not runs_on_host(self._execution, self._policy.mode)

    def get_sandbox(self) -> ReadySandbox:
        """Returns the sandbox for the next run. Raises SecurityError if none is available."""
        if not self._execution.enabled:
            raise SecurityError(
                "Commands and code are switched off for this workspace.",
                hint="Use the file tools. (The user can set `code_execution: {enabled: true}`.)",
            )
        writable = self._may_write_workspace
        return self._get_or_start(writable, lambda: self._command_spec(writable=writable))

    @cached_property
    def _may_write_workspace(self) -> bool:
        """Whether commands may write in the workspace. The policy is immutable, so this is decided once."""
        return self._policy.mode is not PermissionMode.PLAN and self._rules.is_writable(self._policy.workspace)

    def get_read_only_sandbox(self, extra_mounts: tuple[Mount, ...] = ()) -> ReadySandbox:
        """Returns a read-only sandbox for our own programs, without network, tools or the user's variables.

        `extra_mounts` are visible in it too, read-only. Raises SecurityError if no isolation is available.
        """
        return self._get_or_start(extra_mounts, lambda: self._read_only_spec(extra_mounts))

    def _get_or_start(
        self, key: bool | tuple[Mount, ...], plan_spec: Callable[[], tuple[SandboxSpec, str]]
    ) -> ReadySandbox:
        with self._lock:
            found = self._sandboxes.get(key)
            stronger = found is not None and self._is_stronger_available(found)
            holds = found is not None and not stronger and found.sandbox.mounts_intact()
            if found is not None and holds and not self._rules.has_hiding_rules:
                return found
            spec, note = plan_spec()
            if found is not None and holds and found.matches_spec(spec) and found.sandbox.mounts_intact():
                return found
            if found is not None:
                self._sandboxes.pop(key).sandbox.close()
                # Processes inside could still move folders during the scan. Now none is left.
                spec, note = plan_spec()
            started = self._sandboxes[key] = self._start_sandbox(spec, note, must_isolate=isinstance(key, tuple))
            others = [each for each in self._sandboxes if isinstance(each, tuple)]
            for oldest in others[:-_MAX_READ_ONLY_SANDBOXES]:
                self._sandboxes.pop(oldest).sandbox.close()
            if found is None:
                return started
            reason_note = _REPLACED.format(reason=_STRONGER if stronger else _CHANGED)
            return replace(started, note=f"{reason_note} {started.note}".rstrip())

    def current_sandbox(self) -> ReadySandbox:
        """Returns the sandbox that runs code now, never a new one: for a run that this code waits for."""
        with self._lock:
            found = self._sandboxes.get(True) or self._sandboxes.get(False)
        return found or self.get_sandbox()

    def _start_sandbox(self, spec: SandboxSpec, note: str, *, must_isolate: bool) -> ReadySandbox:
        if self._is_closed:
            raise SystemFault("The workspace is closed.", hint="Open it again.")
        choice = self._choose()  # each time: the available tiers may have changed
        if must_isolate and choice.tier is Tier.NONE:
            raise SecurityError(
                "This needs a sandbox, but the configuration or the permission mode disables it.",
                hint="Set `code_execution: {mode: bubblewrap}`, or leave `mode` out.",
            )
        sandbox = choice.make()
        sandbox.on_connection = self._on_connection
        try:
            sandbox.start(spec)
        except BaseException:
            sandbox.close()
            clear_probe_cache()
            raise
        return ReadySandbox(sandbox, spec, f"{choice.note} {note}".strip(), is_provisional=choice.is_provisional)

    def _is_stronger_available(self, current: ReadySandbox) -> bool:
        """Whether a stronger tier, which failed for a transient reason, is available now."""
        if not current.is_provisional or self.background_commands.any_running():
            return False
        now = time.monotonic()
        if now < self._retry_stronger_at:
            return False
        self._retry_stronger_at = now + RETRY_STRONGER_SECONDS
        tiers = list(Tier)
        try:
            return tiers.index(self._choose().tier) < tiers.index(current.sandbox.tier)
        except SecurityError:  # at this moment not even the current tier could be started
            return False

    def record_refused_host(self, address: str) -> None:
        """Records that code tried to reach a host that is not allowed.

        Takes no lock: closing a proxy holds it and waits.
        """
        self._refused_hosts.append(address)

    def pop_refused_host_notes(self) -> list[str]:
        """Returns a note for each host that was refused since the last call."""
        places: dict[str, None] = {}
        with contextlib.suppress(IndexError):
            for _ in range(_MAX_REFUSED_HOSTS):  # more may be added meanwhile
                places[self._refused_hosts.popleft()] = None
        return [f"{place} was refused: it is not in code_execution.allowed_hosts." for place in places]

    def session_folder(self, session: str) -> str:
        """Returns the folder in which the session's last command ended, where the next one starts."""
        return self._session_folders.get(session, "")

    def set_session_folder(self, session: str, folder: str) -> str:
        """Stores the folder in which a command ended, if it is plausible: the sandbox reports it.

        Returns it, or "".
        """
        if not os.path.isabs(folder) or "\0" in folder or len(folder) > _FOLDER_CHARS:
            return ""
        self._session_folders.pop(session, None)
        self._session_folders[session] = folder
        if len(self._session_folders) > _MAX_SESSION_FOLDERS:
            del self._session_folders[next(iter(self._session_folders))]
        return folder

    def close(self) -> None:
        self.background_commands.close()
        with self._lock:
            self._is_closed = True
            for ready in self._sandboxes.values():
                ready.sandbox.close()
            self._sandboxes.clear()

    def _command_spec(self, *, writable: bool) -> tuple[SandboxSpec, str]:
        """Returns the spec of a sandbox for commands, and the note about it."""
        attached = self._code_mode
        broker = (
            attached.broker_folder() if attached else ""
        )  # first: it may write tool files, which have to be visible
        shown = self._visibility.visible_files(writable=writable)
        spec = SandboxSpec(
            workspace=self._policy.workspace,
            writable=writable,
            mounts=shown.mounts,
            hidden=shown.hidden,
            special=shown.special,
            environment={**self._execution.env, **(attached.environment() if attached else {})},
            allowed_hosts=self._execution.allowed_hosts,
            broker=broker,
            packages=attached.packages if attached else "",
            limits=self.limits,
            records_changes=self.records_changes,
        )
        return spec, shown.note

    def _read_only_spec(self, extra_mounts: tuple[Mount, ...]) -> tuple[SandboxSpec, str]:
        """Returns the spec of a sandbox for our own programs, and the note about it."""
        shown = self._visibility.visible_files(writable=False)
        spec = SandboxSpec(
            workspace=self._policy.workspace,
            writable=False,
            mounts=(*(replace(mount, writable=False) for mount in extra_mounts), *shown.mounts),
            hidden=shown.hidden,
            special=shown.special,
            limits=self.limits,
        )
        return spec, shown.note


def clear_probe_cache() -> None:
    """Makes the next selection probe every tier again."""
    from toolyard.sandbox.probe import clear_cache

    clear_cache()


def select_sandbox(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> SandboxChoice:
    """Selects the sandbox for commands in this mode. Raises SecurityError if it is not available."""
    from toolyard.sandbox.probe import SandboxPrograms
    from toolyard.sandbox.selection import choose_sandbox

    docker = execution.docker
    means = SandboxPrograms.find_programs(settings.container_client, image=docker.image, network=docker.network)
    means = replace(means, user_environment=tuple({**settings.user_environment, "HOME": settings.home}.items()))
    if execution.mode != "none" and runs_on_host(execution, mode):
        unwalled = choose_sandbox(execution.model_copy(update={"mode": "none"}), means)
        return replace(unwalled, note="Not sandboxed: bypassPermissions runs commands as the user.")
    return choose_sandbox(execution, means)


def display_folder(folder: str) -> str:
    """Returns a folder's name as text; bytes that are not UTF-8 are replaced."""
    return folder.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def own_environment(workspace: str) -> str | None:
    """Returns the Python environment that Toolyard runs from, if it lies inside the workspace.

    Write access to it would control the next server, outside every sandbox.
    """
    prefix = os.path.realpath(sys.prefix)
    return prefix if is_beneath(prefix, workspace) and prefix != workspace else None
