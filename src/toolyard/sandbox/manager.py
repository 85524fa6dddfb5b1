"""The sandboxes of one workspace: made when first needed, from what the policy and the configuration say.

For the caller's commands there are two at most: one that may write, and one that only reads, for plan mode. Programs
of our own have others (`reading`). When what must be hidden from commands has changed since a sandbox was made
(somebody added a file that a rule hides), the next run gets a new one.
`Sandboxes` owns them and the background commands in them; `close()` ends all.
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

from toolyard.core.closeable import Closing
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.limits import RunLimits
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.builder import runs_on_host
from toolyard.policy.policy import Policy
from toolyard.policy.sandbox_rules import Seals
from toolyard.sandbox.background_commands import Shells
from toolyard.sandbox.file_visibility import Exposure
from toolyard.sandbox.spec import Mount, Sandbox, Spec, Tier

if TYPE_CHECKING:
    from toolyard.config.models import CodeExecution
    from toolyard.config.settings import Settings
    from toolyard.sandbox.selection import Choice

LOOK_AGAIN_SECONDS = 5.0
"""Between two looks whether a stronger sandbox can be had again."""
_FOLDER_CHARS = 4_095
_MOST_REFUSED = 20
_MOST_READING = 8  # sandboxes of our own programs; the one that was made first goes first
_MOST_FOLDERS = 1_000  # of sessions; who was not seen for longest starts in the workspace again
_REPLACED = "The sandbox was replaced, because {reason}: /tmp, sessions and background commands are gone."
_CHANGED = "what it hides or seals has changed"
_STRONGER = "a stronger one can be had again"

Chooser = Callable[[], "Choice"]
OnConnection = Callable[[str, int, bool], None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A sandbox to run in, and what has to be said about it with each result."""

    sandbox: Sandbox
    spec: Spec
    note: str
    is_provisional: bool = False
    """Whether a stronger kind of sandbox failed for a passing reason when this one was started."""

    def shows(self, spec: Spec) -> bool:
        """Whether it is what would be started now. Sockets made since may be its own: none are looked for."""
        return replace(spec, special=self.spec.special) == self.spec


@dataclass(frozen=True, slots=True)
class Attached:
    """What code mode adds to a sandbox."""

    broker_folder: Callable[[], str]
    """Gives the folder of the agent's broker, which is made when first asked for."""
    agent: str
    packages: str
    """Where `servers`, `tools` and `skills` are imported from."""
    skills: tuple[str, ...] = ()
    """The name of the folder of the agent's own skills, and folders of skills elsewhere."""

    def variables(self) -> dict[str, str]:
        skills = (path for path in self.skills if os.pathsep not in path)
        return {"TOOLYARD_AGENT": self.agent, "TOOLYARD_SKILLS": os.pathsep.join(skills)}


class Sandboxes(Closing):
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
        self.shells = Shells()
        self._attached: Attached | None = None
        self.limits: RunLimits = execution.limits.to_limits()
        self._policy = policy
        self._execution = execution
        self._choose = choose
        self._on_connection = on_connection
        self._seals = Seals(policy)
        self._exposure = Exposure(policy, self._seals, state, socket_folders)
        self._ready: dict[bool | tuple[Mount, ...], Ready] = {}
        """By whether it may be written, for commands; by what it shows beside, for programs of our own."""
        self._look_again = 0.0
        self._lock = threading.Lock()
        self._folders: dict[str, str] = {}
        self._is_closed = False
        self._refused: deque[str] = deque(maxlen=_MOST_REFUSED)

    def attach(
        self, broker_folder: Callable[[], str], agent: str, packages: str, skills: tuple[str, ...] = ()
    ) -> None:
        """Give sandboxes a way to call tools: for code mode, before the first one is made."""
        self._attached = Attached(broker_folder, agent, packages, skills)

    @property
    def has_walls(self) -> bool:
        """Whether commands run in a sandbox, as the configuration and the mode say."""
        return not runs_on_host(self._execution, self._policy.mode)

    def ready(self) -> Ready:
        """The sandbox for the next run. Raises SecurityError where none can be had."""
        if not self._execution.enabled:
            raise SecurityError(
                "Commands and code are switched off for this workspace.",
                hint="Use the file tools. (The user can set `code_execution: {enabled: true}`.)",
            )
        writable = self._policy.mode is not PermissionMode.PLAN and self._seals.writable(self._policy.workspace)
        return self._kept(writable, lambda: self._spec(writable=writable))

    def reading(self, also: tuple[Mount, ...] = ()) -> Ready:
        """A sandbox that only reads, for programs of our own: no network, no variables of the user's, no tools.

        `also` is seen in it too, never to be written. Raises SecurityError where there are no walls to be had.
        """
        return self._kept(also, lambda: self._reading_spec(also))

    def _kept(self, key: bool | tuple[Mount, ...], plan: Callable[[], tuple[Spec, str]]) -> Ready:
        with self._lock:
            found = self._ready.get(key)
            stronger = found is not None and self._can_be_stronger(found)
            holds = found is not None and not stronger and found.sandbox.covers_hold()
            if found is not None and holds and not self._seals.hides_something:
                return found
            spec, note = plan()
            if found is not None and holds and found.shows(spec) and found.sandbox.covers_hold():
                return found
            if found is not None:
                self._ready.pop(key).sandbox.close()
                # What ran in there could still move folders while they were looked at. Now nobody is left.
                spec, note = plan()
            made = self._ready[key] = self._started(spec, note, needs_walls=isinstance(key, tuple))
            others = [each for each in self._ready if isinstance(each, tuple)]
            for oldest in others[:-_MOST_READING]:
                self._ready.pop(oldest).sandbox.close()
            if found is None:
                return made
            told = _REPLACED.format(reason=_STRONGER if stronger else _CHANGED)
            return replace(made, note=f"{told} {made.note}".rstrip())

    def beside(self) -> Ready:
        """The sandbox in which code runs now, for a run that this code waits for: it is never replaced for it."""
        with self._lock:
            found = self._ready.get(True) or self._ready.get(False)
        return found or self.ready()

    def _started(self, spec: Spec, note: str, *, needs_walls: bool) -> Ready:
        if self._is_closed:
            raise SystemFault("The workspace is closed.", hint="Open it again.")
        choice = self._choose()  # each time: which walls can be had may have changed
        if needs_walls and choice.tier is Tier.NONE:
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
            forget_probes()
            raise
        return Ready(sandbox, spec, f"{choice.note} {note}".strip(), is_provisional=choice.is_provisional)

    def _can_be_stronger(self, found: Ready) -> bool:
        """Whether a better kind of sandbox, which could not be had for a passing reason, can be had by now."""
        if not found.is_provisional or self.shells.any_running():
            return False
        now = time.monotonic()
        if now < self._look_again:
            return False
        self._look_again = now + LOOK_AGAIN_SECONDS
        tiers = list(Tier)
        try:
            return tiers.index(self._choose().tier) < tiers.index(found.sandbox.tier)
        except SecurityError:  # at this moment not even this kind can be started anew
            return False

    def refused(self, place: str) -> None:
        """Code wanted to reach a host that is not allowed. Takes no lock: who ends a proxy holds it, and waits."""
        self._refused.append(place)

    def take_refused(self) -> list[str]:
        """What was refused since this was last asked, as notes for a result."""
        places: dict[str, None] = {}
        with contextlib.suppress(IndexError):
            for _ in range(_MOST_REFUSED):  # more may come meanwhile
                places[self._refused.popleft()] = None
        return [f"{place} was refused: it is not in code_execution.allowed_hosts." for place in places]

    def folder(self, session: str) -> str:
        """Where the next command of this session starts: where its last one ended."""
        return self._folders.get(session, "")

    def moved(self, session: str, folder: str) -> str:
        """Keep where a command ended, if it can be true: it crossed the wall. What was kept, or nothing."""
        if not os.path.isabs(folder) or "\0" in folder or len(folder) > _FOLDER_CHARS:
            return ""
        self._folders.pop(session, None)
        self._folders[session] = folder
        if len(self._folders) > _MOST_FOLDERS:
            del self._folders[next(iter(self._folders))]
        return folder

    def close(self) -> None:
        self.shells.close()
        with self._lock:
            self._is_closed = True
            for ready in self._ready.values():
                ready.sandbox.close()
            self._ready.clear()

    def _spec(self, *, writable: bool) -> tuple[Spec, str]:
        """What a sandbox started now would be, and what has to be said about it."""
        attached = self._attached
        broker = attached.broker_folder() if attached else ""  # first: it may write tool files, which are shown
        shown = self._exposure.shown(writable=writable)
        spec = Spec(
            workspace=self._policy.workspace,
            writable=writable,
            mounts=shown.mounts,
            hidden=shown.hidden,
            special=shown.special,
            environment={**self._execution.env, **(attached.variables() if attached else {})},
            allowed_hosts=self._execution.allowed_hosts,
            broker=broker,
            packages=attached.packages if attached else "",
            limits=self.limits,
            records_changes=self.records_changes,
        )
        return spec, shown.note

    def _reading_spec(self, also: tuple[Mount, ...]) -> tuple[Spec, str]:
        shown = self._exposure.shown(writable=False)
        spec = Spec(
            workspace=self._policy.workspace,
            writable=False,
            mounts=(*(replace(mount, writable=False) for mount in also), *shown.mounts),
            hidden=shown.hidden,
            special=shown.special,
            limits=self.limits,
        )
        return spec, shown.note


def forget_probes() -> None:
    from toolyard.sandbox.probe import forget

    forget()


def chosen(execution: CodeExecution, settings: Settings, mode: PermissionMode) -> Choice:
    """The sandbox for commands in this mode. Raises SecurityError where it cannot be had."""
    from toolyard.sandbox.probe import Means
    from toolyard.sandbox.selection import choose

    docker = execution.docker
    means = Means.found(settings.container_client, image=docker.image, network=docker.network)
    means = replace(means, user=tuple({**settings.user_environment, "HOME": settings.home}.items()))
    if execution.mode != "none" and runs_on_host(execution, mode):
        unwalled = choose(execution.model_copy(update={"mode": "none"}), means)
        return replace(unwalled, note="Not sandboxed: bypassPermissions runs commands as the user.")
    return choose(execution, means)


def shown_folder(folder: str) -> str:
    """A folder's name as text; the bytes in it that are no UTF-8 are replaced."""
    return folder.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def own_environment(workspace: str) -> str | None:
    """The Python environment that Toolyard runs from, where it lies inside the workspace.

    Whoever could write it would decide what the next server does, outside every wall.
    """
    prefix = os.path.realpath(sys.prefix)
    return prefix if is_beneath(prefix, workspace) and prefix != workspace else None
