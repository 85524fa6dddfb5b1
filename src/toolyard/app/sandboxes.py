"""The sandboxes of one workspace: made when first needed, from what the policy and the configuration say.

There are two at most: one that may write, and one that only reads, for plan mode. When what must be hidden from
commands has changed since a sandbox was made (somebody added a file that a rule hides), the next run gets a new one.
`Sandboxes` owns them and the background commands in them; `close()` ends all.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolyard.core.closing import Closing
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.limits import RunLimits
from toolyard.core.modes import Access, PermissionMode
from toolyard.core.paths import is_beneath
from toolyard.policy.policy import Policy
from toolyard.policy.sealing import Seals
from toolyard.sandbox.shells import Shells
from toolyard.sandbox.spec import Mount, Sandbox, Spec

if TYPE_CHECKING:
    from toolyard.config.models import CodeExecution
    from toolyard.sandbox.choose import Choice

_LOOKED_AT = 20_000  # entries; a repository deeper down than that is one the policy guards by its file tools only
_LOOK_SECONDS = 0.5
_FOLDER_CHARS = 4_095
_MOST_FOLDERS = 1_000  # of sessions; who was not seen for longest starts in the workspace again
_REPLACED = (
    "The sandbox was replaced, because what it hides or seals has changed: /tmp, sessions and background commands "
    "are gone."
)

Chooser = Callable[[], "Choice"]
OnConnection = Callable[[str, int, bool], None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A sandbox to run in, and what has to be said about it with each result."""

    sandbox: Sandbox
    spec: Spec
    note: str


class Sandboxes(Closing):
    def __init__(
        self, policy: Policy, execution: CodeExecution, state: str, choose: Chooser, on_connection: OnConnection
    ) -> None:
        self.shells = Shells()
        self.limits: RunLimits = execution.limits.to_limits()
        self._policy = policy
        self._execution = execution
        self._state = state
        self._choose = choose
        self._on_connection = on_connection
        self._seals = Seals(policy)
        self._ready: dict[bool, Ready] = {}
        self._choice: Choice | None = None
        self._lock = threading.Lock()
        self._folders: dict[str, str] = {}
        self._is_closed = False

    def ready(self) -> Ready:
        """The sandbox for the next run. Raises SecurityError where none can be had."""
        if not self._execution.enabled:
            raise SecurityError(
                "Commands and code are switched off for this workspace.",
                hint="Use the file tools. (The user can set `code_execution: {enabled: true}`.)",
            )
        writable = self._policy.mode is not PermissionMode.PLAN and self._seals.writable(self._policy.workspace)
        with self._lock:
            found = self._ready.get(writable)
            if found is not None and not self._seals.hides_something:
                return found
            spec = self._spec(writable=writable)
            if found is not None and found.spec == spec:
                return found
            if found is not None:
                self._ready.pop(writable).sandbox.close()
            made = self._ready[writable] = self._started(spec)
            return made if found is None else replace(made, note=f"{_REPLACED} {made.note}".rstrip())

    def _started(self, spec: Spec) -> Ready:
        if self._is_closed:
            raise SystemFault("The workspace is closed.", hint="Open it again.")
        self._choice = self._choice or self._choose()
        sandbox = self._choice.make()
        sandbox.on_connection = self._on_connection
        try:
            sandbox.start(spec)
        except BaseException:
            sandbox.close()
            raise
        return Ready(sandbox, spec, self._choice.note)

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

    def _spec(self, *, writable: bool) -> Spec:
        roots = [Mount(self._policy.workspace, writable)]
        roots += [
            Mount(entry.path, writable=writable and entry.access is Access.WRITE) for entry in self._policy.context
        ]
        if self._policy.mode is PermissionMode.MODERATE:
            roots += [Mount(path, writable) for path in self._policy.extra_roots]
        # The innermost last, as it covers the others; of two declarations of one path the stricter, as in the policy.
        roots = sorted(
            (root for root in roots if os.path.exists(root.source) and not os.path.islink(root.source)),
            key=lambda root: (len(root.source), not root.writable),
        )
        covered = [root for root in roots if root.source != self._policy.workspace]
        mounts = roots if roots[0].source != self._policy.workspace else covered
        hidden: list[str] = []
        inner = {root.source for root in roots}
        for root in {root.source: root for root in roots}.values():
            for path, what in self._look(root, inner):
                if what is _HIDDEN:
                    hidden.append(path)
                else:
                    mounts.append(Mount(path, writable=what is _PINNED))
        if any(is_beneath(self._state, root.source) for root in roots):
            hidden.append(self._state)
        return Spec(
            workspace=self._policy.workspace,
            writable=writable,
            mounts=tuple(mounts),
            hidden=tuple(hidden),
            environment=self._execution.env,
            allowed_hosts=self._execution.allowed_hosts,
            limits=self.limits,
        )

    def _look(self, root: Mount, roots: set[str]) -> Iterator[tuple[str, str]]:
        """What of a root is not like the rest of it. Breadth first, so that what lies near the top is always found.

        A root inside it is looked at for itself.
        A search for files to hide goes through everything; one for repositories, whose hooks are sealed, is bounded.
        """
        seals = self._seals
        if not root.writable and not seals.hides_something:
            return
        until = time.monotonic() + _LOOK_SECONDS
        waiting = [root.source]
        looked_at = 0
        for folder in waiting:
            if not seals.hides_something and (looked_at > _LOOKED_AT or time.monotonic() > until):
                return
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue  # it went away, or is closed to us and so to commands
            looked_at += len(entries)
            for entry in entries:
                if entry.is_symlink() or entry.path in roots:
                    continue
                what = self._judge(entry.path, root)
                if what:
                    yield entry.path, what
                if what in {"", _PINNED} and entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)

    def _judge(self, path: str, root: Mount) -> str:
        if self._seals.hidden(path):
            return _HIDDEN
        if not root.writable:
            return ""
        if self._seals.sealed(path):
            return _SEALED
        return _PINNED if self._seals.pinned(path) else ""


_HIDDEN, _SEALED, _PINNED = "hidden", "sealed", "pinned"


def shown_folder(folder: str) -> str:
    """A folder's name as text; the bytes in it that are no UTF-8 are replaced."""
    return folder.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def own_environment(workspace: str) -> str | None:
    """The Python environment that Toolyard runs from, where it lies inside the workspace.

    Whoever could write it would decide what the next server does, outside every wall.
    """
    prefix = os.path.realpath(sys.prefix)
    return prefix if is_beneath(prefix, workspace) and prefix != workspace else None
