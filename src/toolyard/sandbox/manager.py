"""The sandboxes of one workspace: made when first needed, from what the policy and the configuration say.

For the caller's commands there are two at most: one that may write, and one that only reads, for plan mode. Programs
of our own have others (`get_read_only_sandbox`). When what must be hidden from commands has changed since a sandbox was made
(somebody added a file that a rule hides), the next run gets a new one.
`SandboxManager` owns them and the background commands in them; `close()` ends all.
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
"""Between two looks whether a stronger sandbox can be had again."""
_FOLDER_CHARS = 4_095
_MAX_REFUSED_HOSTS = 20
_MAX_READ_ONLY_SANDBOXES = 8  # sandboxes of our own programs; the one that was made first goes first
_MAX_SESSION_FOLDERS = 1_000  # of sessions; who was not seen for longest starts in the workspace again
_REPLACED = "The sandbox was replaced, because {reason}: /tmp, sessions and background commands are gone."
_CHANGED = "what it hides or seals has changed"
_STRONGER = "a stronger one can be had again"

Chooser = Callable[[], "SandboxChoice"]
OnConnection = Callable[[str, int, bool], None]


@dataclass(frozen=True, slots=True)
class ReadySandbox:
    """A sandbox to run in, and what has to be said about it with each result."""

    sandbox: Sandbox
    spec: SandboxSpec
    note: str
    is_provisional: bool = False
    """Whether a stronger kind of sandbox failed for a passing reason when this one was started."""

    def matches_spec(self, spec: SandboxSpec) -> bool:
        """Whether it is what would be started now. Sockets made since may be its own: none are looked for."""
        return replace(spec, special=self.spec.special) == self.spec


@dataclass(frozen=True, slots=True)
class CodeModeAttachment:
    """What code mode adds to a sandbox."""

    broker_folder: Callable[[], str]
    """Gives the folder of the agent's broker, which is made when first asked for."""
    agent: str
    packages: str
    """Where `servers`, `tools` and `skills` are imported from."""
    skills: tuple[str, ...] = ()
    """The name of the folder of the agent's own skills, and folders of skills elsewhere."""

    def environment(self) -> dict[str, str]:
        skills = (path for path in self.skills if os.pathsep not in path)
        return {"TOOLYARD_AGENT": self.agent, "TOOLYARD_SKILLS": os.pathsep.join(skills)}


class SandboxManager(Closeable):
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
        """Of the `socket_folders`, where other programs have their sockets, none is shown in a sandbox.

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
        """By whether it may be written, for commands; by what it shows beside, for programs of our own."""
        self._retry_stronger_at = 0.0
        self._lock = threading.Lock()
        self._session_folders: dict[str, str] = {}
        self._is_closed = False
        self._refused_hosts: deque[str] = deque(maxlen=_MAX_REFUSED_HOSTS)

    def attach(
        self, broker_folder: Callable[[], str], agent: str, packages: str, skills: tuple[str, ...] = ()
    ) -> None:
        """Give sandboxes a way to call tools: for code mode, before the first one is made."""
        self._code_mode = CodeModeAttachment(broker_folder, agent, packages, skills)

    @property
    def is_sandboxed(self) -> bool:
        """Whether commands run in a sandbox, as the configuration and the mode say."""
        return not runs_on_host(self._execution, self._policy.mode)

    def get_sandbox(self) -> ReadySandbox:
        """The sandbox for the next run. Raises SecurityError where none can be had."""
        if not self._execution.enabled:
            raise SecurityError(
                "Commands and code are switched off for this workspace.",
                hint="Use the file tools. (The user can set `code_execution: {enabled: true}`.)",
            )
        writable = self._policy.mode is not PermissionMode.PLAN and self._rules.is_writable(self._policy.workspace)
        return self._get_or_start(writable, lambda: self._command_spec(writable=writable))

    def get_read_only_sandbox(self, extra_mounts: tuple[Mount, ...] = ()) -> ReadySandbox:
        """A sandbox that only reads, for programs of our own: no network, no variables of the user's, no tools.

        `extra_mounts` is seen in it too, never to be written. Raises SecurityError where there are no walls to be had.
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
                # What ran in there could still move folders while they were looked at. Now nobody is left.
                spec, note = plan_spec()
            made = self._sandboxes[key] = self._start_sandbox(spec, note, must_isolate=isinstance(key, tuple))
            others = [each for each in self._sandboxes if isinstance(each, tuple)]
            for oldest in others[:-_MAX_READ_ONLY_SANDBOXES]:
                self._sandboxes.pop(oldest).sandbox.close()
            if found is None:
                return made
            told = _REPLACED.format(reason=_STRONGER if stronger else _CHANGED)
            return replace(made, note=f"{told} {made.note}".rstrip())

    def current_sandbox(self) -> ReadySandbox:
        """The sandbox in which code runs now, for a run that this code waits for: it is never replaced for it."""
        with self._lock:
            found = self._sandboxes.get(True) or self._sandboxes.get(False)
        return found or self.get_sandbox()

    def _start_sandbox(self, spec: SandboxSpec, note: str, *, must_isolate: bool) -> ReadySandbox:
        if self._is_closed:
            raise SystemFault("The workspace is closed.", hint="Open it again.")
        choice = self._choose()  # each time: which walls can be had may have changed
        if must_isolate and choice.tier is Tier.NONE:
            raise SecurityError(
                "This needs a sandbox, and the configuration or the mode says that there shall be none.",
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
        """Whether a better kind of sandbox, which could not be had for a passing reason, can be had by now."""
        if not current.is_provisional or self.background_commands.any_running():
            return False
        now = time.monotonic()
        if now < self._retry_stronger_at:
            return False
        self._retry_stronger_at = now + RETRY_STRONGER_SECONDS
        tiers = list(Tier)
        try:
            return tiers.index(self._choose().tier) < tiers.index(current.sandbox.tier)
        except SecurityError:  # at this moment not even this kind can be started anew
            return False

    def record_refused_host(self, address: str) -> None:
        """Code wanted to reach a host that is not allowed. Takes no lock: who ends a proxy holds it, and waits."""
        self._refused_hosts.append(address)

    def pop_refused_host_notes(self) -> list[str]:
        """What was refused since this was last asked, as notes for a result."""
        places: dict[str, None] = {}
        with contextlib.suppress(IndexError):
            for _ in range(_MAX_REFUSED_HOSTS):  # more may come meanwhile
                places[self._refused_hosts.popleft()] = None
        return [f"{place} was refused: it is not in code_execution.allowed_hosts." for place in places]

    def session_folder(self, session: str) -> str:
        """Where the next command of this session starts: where its last one ended."""
        return self._session_folders.get(session, "")

    def set_session_folder(self, session: str, folder: str) -> str:
        """Keep where a command ended, if it can be true: it crossed the wall. What was kept, or nothing."""
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
        """What a sandbox started now would be, and what has to be said about it."""
        attached = self._code_mode
        broker = attached.broker_folder() if attached else ""  # first: it may write tool files, which are shown
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
    from toolyard.sandbox.probe import clear_cache

    clear_cache()


def select_sandbox(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> SandboxChoice:
    """The sandbox for commands in this mode. Raises SecurityError where it cannot be had."""
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
    """A folder's name as text; the bytes in it that are no UTF-8 are replaced."""
    return folder.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def own_environment(workspace: str) -> str | None:
    """The Python environment that Toolyard runs from, where it lies inside the workspace.

    Whoever could write it would decide what the next server does, outside every wall.
    """
    prefix = os.path.realpath(sys.prefix)
    return prefix if is_beneath(prefix, workspace) and prefix != workspace else None
