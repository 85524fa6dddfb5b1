"""The Gate: what one call may touch. Every path and command a tool uses goes through it.

A tool's function runs in a worker thread and asks the Gate for each thing it is about to touch, before it changes
anything. The Gate decides twice: on the path as it was spelled, before anything is opened, and on where the opened
handle really lies. Where the policy says `ask`, the Gate raises NeedsAnswer; dispatch puts the question and, when
the answer is yes, runs the function again with that action approved.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.calls import Call, ask_nobody
from toolyard.core.errors import SecurityError, SystemFault, ToolError
from toolyard.core.limits import KIB, Limits
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.read_tracker import Seen
from toolyard.files.mounts import Mounts, Target
from toolyard.files.walk import walk
from toolyard.policy.policy import CIRCUIT_BREAKER, Policy
from toolyard.sandbox.manager import Sandboxes

if TYPE_CHECKING:
    from toolyard.codemode.service import CodeMode
    from toolyard.core.upstream import ToolSchema
    from toolyard.sandbox.spec import ChangedPath, ChangeSink
    from toolyard.sharing.service import Sharing
    from toolyard.snapshots.service.auto_snapshots import Keeper
    from toolyard.snapshots.service.running_calls import RunningCalls
    from toolyard.workspace.agent_paths import Home
    from toolyard.workspace.file_tool_detector import FilesystemToolDetector

_LOSES = "What this deletes or overwrites"
_QUICK_BYTES = 256 * KIB
_ORDER = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}


class NeedsAnswer(Exception):  # noqa: N818 - a question, not an error
    """The policy wants somebody to be asked before this action."""

    def __init__(self, action: Action, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.action = action
        self.decision = decision


@dataclass(frozen=True, slots=True)
class _ChangesOfCommand:
    """Hands what a command changes to the record of each folder it may change. See `ChangeSink`."""

    calls: tuple[tuple[RunningCalls, int], ...]

    def recorded(self, *, is_complete: bool) -> None:
        for calls, number in self.calls:
            calls.set_recorded(number, is_complete=is_complete)

    def changed(self, paths: Sequence[ChangedPath]) -> None:
        for calls, number in self.calls:
            calls.add_changes(number, paths)


class NotNow(Exception):  # noqa: N818 - not an error: the call takes the other way
    """The call may take long, and was to run where it would hold up everybody else."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What tools work with, the same for every call of one workspace."""

    mounts: Mounts
    policy: Policy
    limits: Limits
    seen: Seen
    sandboxes: Sandboxes
    codemode: CodeMode | None = None
    snapshots: Keeper | None = None
    detector: FilesystemToolDetector | None = None
    home: Home | None = None
    sharing: Sharing | None = None
    contexts: tuple[Keeper, ...] = ()
    """Of the context paths that the agent may write."""


@dataclass(slots=True, eq=False)
class Gate:
    resources: Resources
    call: Call
    approved: frozenset[Action] = frozenset()
    cancelled: threading.Event = field(default_factory=threading.Event)
    deadline: float = float("inf")
    patient: bool = True
    """False while everybody else waits for this call: see `takes_long`."""
    started: bool = False
    """Whether the tool's function was handed to a thread, so that it may have done something."""
    completed: bool = False
    """Whether the tool's function did what it was asked, whatever became of the caller meanwhile."""
    judged: list[tuple[Action, Decision]] = field(default_factory=list[tuple[Action, Decision]])
    remarks: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    """Added to the result."""
    changes: bool = False
    """Whether the call may have changed something of which there are snapshots."""
    touched: list[Keeper] = field(default_factory=list["Keeper"])
    """Whose folders it may have changed."""
    began: dict[tuple[Keeper, str | None], int] = field(default_factory=dict[tuple["Keeper", "str | None"], int])
    """The changes of this call that have begun and not ended, by folder and path."""
    runs_on: bool = False
    """Whether a command of this call goes on in the background."""
    loop: asyncio.AbstractEventLoop | None = None
    """Where questions of this call are put."""
    seconds: float = 0.0
    """How long this call may take."""
    is_notified: bool = False
    """Whether listeners for file operations were told of this call."""
    doing: str = ""
    """What a long call is at, for whoever waits for it."""

    @property
    def limits(self) -> Limits:
        return self.resources.limits

    @property
    def mounts(self) -> Mounts:
        return self.resources.mounts

    @property
    def sandboxes(self) -> Sandboxes:
        return self.resources.sandboxes

    @property
    def codemode(self) -> CodeMode:
        if self.resources.codemode is None:
            raise SystemFault("Code mode is off here.", hint="Open the workspace with the tools of code mode.")
        return self.resources.codemode

    @property
    def seen(self) -> Seen:
        return self.resources.seen

    @property
    def snapshots(self) -> Keeper:
        if self.resources.snapshots is None:
            raise SystemFault("There are no snapshots here.", hint="Open the workspace as a whole.")
        return self.resources.snapshots

    @property
    def home(self) -> Home:
        if self.resources.home is None:
            raise SystemFault("There is no memory here.", hint="Open the workspace as a whole.")
        return self.resources.home

    @property
    def sharing(self) -> Sharing:
        if self.resources.sharing is None:
            raise ToolError(
                "There are no other agents to share with here.",
                hint="Sharing needs `toolyard.workspace` and several `agents` in the configuration, and --agent.",
            )
        return self.resources.sharing

    def target(self, path: object, *kinds: Kind, argument: str = "path") -> Target:
        """What `path` names, if this call may do all of `kinds` to it. The caller closes it."""
        spelled = self.mounts.clean(path, field=argument)
        for kind in kinds:
            self.require(Action(kind, self.call.tool, spelled, spelled, agent=self.call.agent))
        if not self.patient and not self.mounts.is_declared(spelled):
            self.takes_long()  # nobody knows what kind of disk is out there
        if Kind.WRITE in kinds:
            self.changing(path=spelled)
        target = self.mounts.find(spelled)
        real = target.real
        try:
            if real != spelled:
                for kind in kinds:
                    self.require(Action(kind, self.call.tool, spelled, real, agent=self.call.agent))
                if Kind.WRITE in kinds:
                    self.changing(path=real)
            if not self.patient and not _is_quick(target):
                self.takes_long()
        except BaseException:
            target.handle.close()
            raise
        return target

    def changing(self, risk: Action | None = None, path: str | None = None) -> None:
        """Say that what comes next may change what lies at `path`, or anything. It is kept first, as a snapshot.

        `risk` is an action that may delete or overwrite anything. Where no snapshot could be taken, it is put to
        whoever can be asked, or announced before it runs.
        """
        for keeper in self._keepers(path):
            self.changes = True
            if keeper not in self.touched:
                self.touched.append(keeper)
            if not keeper.is_settled:
                why = keeper.before_change(self, risky=risk is not None and _may_destroy(risk))
                if why and risk is not None:
                    self._announce(risk, why, keeper)
            self.begin_change(keeper, path)

    def begin_change(self, keeper: Keeper, path: str | None = None) -> None:
        """Name this call as the one that changes `path`, or anything, in the keeper's folder from now on."""
        if (keeper, path) not in self.began:
            if keeper.calls.is_recorded:
                self.takes_long()
            self.began[keeper, path] = keeper.calls.begin(self.call.tool, path)

    def change_sink(self, *, keeps_session: bool = False) -> ChangeSink | None:
        """Where a sandbox records what this call's command changes; None where only one agent works.

        `keeps_session`: what the command leaves running goes on after this call.
        """
        begun = [(keeper.calls, number) for (keeper, path), number in self.began.items() if path is None]
        recorded = [(calls, number) for calls, number in begun if calls.is_recorded]
        for calls, number in recorded if keeps_session else ():
            calls.keep_session(number)
        return _ChangesOfCommand(tuple(recorded)) if recorded else None

    def end_changes(self) -> None:
        """Say that this call changes nothing any more."""
        while self.began:
            (keeper, _), number = self.began.popitem()
            keeper.calls.end(number)

    def _keepers(self, path: str | None) -> list[Keeper]:
        """Of the workspace and the writable context paths, those that have `path`; of None, all."""
        workspace = self.resources.snapshots
        found = [each for each in self.resources.contexts if path is None or is_beneath(path, each.place.root)]
        if workspace is not None and (path is None or is_beneath(path, self.mounts.workspace.path)):
            found.insert(0, workspace)
        return found

    def _announce(self, risk: Action, why: str, keeper: Keeper) -> None:
        """Have it known before `risk` runs that it could not be undone."""
        root = keeper.place.root
        what = f"What this deletes or overwrites in {root}" if keeper.place.is_context else _LOSES
        said = f"{what} cannot be brought back, because no snapshot could be taken: {why.rstrip('.')}."
        question = replace(risk, path=root, real_path=root)  # another one than whether it may run
        if question in self.approved:
            return
        if self.call.ask is not ask_nobody:
            raise NeedsAnswer(question, Decision(Effect.ASK, said, "snapshots"))
        if self.call.warn is not None:
            self.call.warn(said)
        elif keeper.notices.announce(why, self.call.session):
            raise ToolError(
                f"Nothing was run yet. {said}",
                hint="Tell the user. Where that is acceptable, make the same call again: it and later ones run.",
                retryable=True,
            )

    def changed(self) -> None:
        """Say that the workspace may have changed: a snapshot follows when it has been quiet for a moment."""
        for keeper in self.touched or self._keepers(self.mounts.workspace.path):
            keeper.changed(self.call.tool)

    def calling(self, name: str, schema: ToolSchema) -> None:
        """Say that a tool of somebody else's is called next. One that changes files is a change of the workspace."""
        detector = self.resources.detector
        if detector is not None and detector.learn(name, schema.input_schema, schema.annotations):
            self.changing()

    def takes_long(self) -> None:
        """Say that what comes next may take long. A call that others wait for ends here and begins again in a thread.

        For tools, before they change anything.
        """
        if not self.patient:
            raise NotNow

    def may_wait(self) -> None:
        """Pass while this call may go on waiting for somebody else."""
        self.takes_long()
        self.check_time()

    def displace(self, source: Target) -> None:
        """Pass when this call may take the folder `source` from its place: a home or a repository needs a yes."""
        action = Action(Kind.WRITE, self.call.tool, source.path, source.real, displaces=True, agent=self.call.agent)
        if self.resources.policy.decide(action).rule == CIRCUIT_BREAKER:  # the plain write was judged before
            self.require(action)

    def carry(self, source: Target, destination: Target) -> None:
        """Pass when everything inside the folder `source` may leave its place and be put below `destination`.

        The policy judged the folders by their own names. What they hold is judged here, at the old path and the new:
        otherwise a protected file could be moved with the folder around it, put in place inside one, or be read
        under a name that no rule knows.
        """
        # Whoever said yes to the folder said yes to what the same rule asks about its content.
        named = {source.path, destination.path}
        answered = {decision.rule for action, decision in self.judged if action.path in named}
        old, new = source.real, destination.real
        for inside in walk(source.root, source.relative, self.check_time):
            for kind, folder in ((Kind.READ, old), (Kind.WRITE, old), (Kind.WRITE, new)):
                path = os.path.join(folder, inside)
                action = Action(kind, self.call.tool, path, path, agent=self.call.agent)
                decision = self.resources.policy.decide(action)
                if decision.effect is Effect.DENY:
                    self.judged.append((action, decision))
                    raise SecurityError.refused(
                        f"{self.mounts.shown(source.path)} cannot be moved for what it holds. {decision.reason}"
                    )
                if decision.effect is Effect.ASK and decision.rule not in answered:
                    self.require(action)

    def command(self, command: str, folder: str = "") -> None:
        """Pass when this call may run `command`, which starts in `folder`; empty for the workspace."""
        action = Action(Kind.EXECUTE, self.call.tool, command=command, folder=folder or None, agent=self.call.agent)
        self._run(action)

    def code(self, code: str) -> None:
        """Pass when this call may run this Python code."""
        self._run(Action(Kind.EXECUTE, self.call.tool, code=code, agent=self.call.agent))

    def _run(self, action: Action) -> None:
        self.require(action)
        if self.resources.policy.mode is not PermissionMode.PLAN:  # there nothing can be written
            self.changing(action)

    def questions_go_to_caller(self) -> AbstractContextManager[None]:
        """While the block runs, tools that the code calls ask whoever made this call."""
        mode = self.resources.codemode
        if mode is None or self.loop is None:
            return nullcontext()
        return mode.questions.go_to(self.call.ask, self.loop)

    def remark(self, text: str) -> None:
        """Something that the audit log shall say about this call."""
        self.remarks.append(text)

    def tell(self, text: str) -> None:
        """A line for whoever gets the result; the audit log has it too."""
        self.lines.append(text)
        self.remark(text)

    def visible(self, path: str) -> bool:
        """Whether a file met on the way (a search hit, a listing) may be shown without asking."""
        if self.resources.policy.visible(path):
            return True
        return any(
            kept.kind is Kind.READ and kept.real_path is not None and is_beneath(path, kept.real_path)
            for kept in self.approved
        ) and self._would_only_ask(path)

    def _would_only_ask(self, path: str) -> bool:
        return self.resources.policy.decide(Action(Kind.READ, self.call.tool, path, path)).effect is Effect.ASK

    def require(self, action: Action) -> None:
        decision = self.resources.policy.decide(action)
        self.judged.append((action, decision))
        if decision.effect is Effect.DENY:
            raise SecurityError.refused(decision.reason)
        if decision.effect is Effect.ASK and not self._is_approved(action):
            raise NeedsAnswer(action, decision)

    def _is_approved(self, action: Action) -> bool:
        # Whoever may write a file may see it: one question, not two.
        return action in self.approved or replace(action, kind=Kind.WRITE) in self.approved

    def check_time(self) -> None:
        """Raise when the call was cancelled or is past its deadline. For loops that take long."""
        if self.cancelled.is_set():
            raise ToolError("The call was stopped before it finished.", hint="Ask for less, then try again.")
        if time.monotonic() > self.deadline:
            raise self.overdue()

    def overdue(self) -> ToolError:
        return ToolError(
            f"{self.call.tool} took longer than {self.seconds or self.limits.call_seconds:g} seconds.",
            hint="Ask for less.",
            retryable=True,
        )

    def verdict(self) -> tuple[Action, Decision] | None:
        """The most restrictive thing decided in this call, for the audit log."""
        return max(self.judged, key=lambda pair: _ORDER[pair[1].effect], default=None)


def _may_destroy(action: Action) -> bool:
    """Whether a run may delete or overwrite files: all but commands that surely only read."""
    from toolyard.policy.shell import analyse  # few calls need it

    return action.command is None or not analyse(action.command).read_only


def _is_quick(target: Target) -> bool:
    """Whether what was found is small, and on the root's own disk: another may be mounted anywhere beneath it."""
    status = target.handle.status
    return status.st_dev == target.root.device and (not target.handle.is_file or status.st_size <= _QUICK_BYTES)
