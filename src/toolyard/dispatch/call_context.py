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
from toolyard.core.calls import Call, deny_without_asking
from toolyard.core.errors import SecurityError, SystemFault, ToolError
from toolyard.core.limits import KIB, Limits
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.read_tracker import ReadTracker
from toolyard.files.mounts import Mounts, Target
from toolyard.files.walk import walk_entries
from toolyard.policy.policy import CIRCUIT_BREAKER, Policy
from toolyard.sandbox.manager import SandboxManager

if TYPE_CHECKING:
    from toolyard.codemode.service import CodeMode
    from toolyard.core.upstream import ToolSchema
    from toolyard.sandbox.spec import ChangedPath, ChangeSink
    from toolyard.sharing.service import SharingService
    from toolyard.snapshots.service.auto_snapshots import AutoSnapshots
    from toolyard.snapshots.service.running_calls import RunningCalls
    from toolyard.workspace.agent_paths import AgentPaths
    from toolyard.workspace.file_tool_detector import FilesystemToolDetector

_LOSS_SUBJECT = "What this deletes or overwrites"
_INLINE_MAX_BYTES = 256 * KIB
_STRICTNESS = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}


class ApprovalRequired(Exception):  # noqa: N818 - a question, not an error
    """The policy wants somebody to be asked before this action."""

    def __init__(self, action: Action, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.action = action
        self.decision = decision


@dataclass(frozen=True, slots=True)
class _CommandChangeSink:
    """Hands what a command changes to the record of each folder it may change. See `ChangeSink`."""

    calls: tuple[tuple[RunningCalls, int], ...]

    def report_coverage(self, *, is_complete: bool) -> None:
        for calls, number in self.calls:
            calls.set_complete(number, is_complete=is_complete)

    def add_changes(self, paths: Sequence[ChangedPath]) -> None:
        for calls, number in self.calls:
            calls.add_changes(number, paths)


class MustRunInThread(Exception):  # noqa: N818 - not an error: the call takes the other way
    """The call may take long, and was to run where it would hold up everybody else."""


@dataclass(frozen=True, slots=True)
class WorkspaceServices:
    """What tools work with, the same for every call of one workspace."""

    mounts: Mounts
    policy: Policy
    limits: Limits
    read_tracker: ReadTracker
    sandboxes: SandboxManager
    codemode: CodeMode | None = None
    snapshots: AutoSnapshots | None = None
    detector: FilesystemToolDetector | None = None
    agent_paths: AgentPaths | None = None
    sharing_service: SharingService | None = None
    context_snapshots: tuple[AutoSnapshots, ...] = ()
    """Of the context paths that the agent may write."""


@dataclass(slots=True, eq=False)
class CallContext:
    services: WorkspaceServices
    call: Call
    approved_actions: frozenset[Action] = frozenset()
    cancelled: threading.Event = field(default_factory=threading.Event)
    deadline: float = float("inf")
    may_block: bool = True
    """False while everybody else waits for this call: see `require_thread`."""
    started: bool = False
    """Whether the tool's function was handed to a thread, so that it may have done something."""
    completed: bool = False
    """Whether the tool's function did what it was asked, whatever became of the caller meanwhile."""
    decisions: list[tuple[Action, Decision]] = field(default_factory=list[tuple[Action, Decision]])
    audit_notes: list[str] = field(default_factory=list[str])
    result_notes: list[str] = field(default_factory=list[str])
    """Added to the result."""
    may_have_changed: bool = False
    """Whether the call may have changed something of which there are snapshots."""
    touched_snapshots: list[AutoSnapshots] = field(default_factory=list["AutoSnapshots"])
    """Whose folders it may have changed."""
    pending_changes: dict[tuple[AutoSnapshots, str | None], int] = field(
        default_factory=dict[tuple["AutoSnapshots", "str | None"], int]
    )
    """The changes of this call that have begun and not ended, by folder and path."""
    continues_in_background: bool = False
    """Whether a command of this call goes on in the background."""
    loop: asyncio.AbstractEventLoop | None = None
    """Where questions of this call are put."""
    timeout_seconds: float = 0.0
    """How long this call may take."""
    listeners_notified: bool = False
    """Whether listeners for file operations were told of this call."""
    status: str = ""
    """What a long call is at, for whoever waits for it."""

    @property
    def limits(self) -> Limits:
        return self.services.limits

    @property
    def mounts(self) -> Mounts:
        return self.services.mounts

    @property
    def sandboxes(self) -> SandboxManager:
        return self.services.sandboxes

    @property
    def codemode(self) -> CodeMode:
        if self.services.codemode is None:
            raise SystemFault("Code mode is off here.", hint="Open the workspace with the tools of code mode.")
        return self.services.codemode

    @property
    def read_tracker(self) -> ReadTracker:
        return self.services.read_tracker

    @property
    def snapshots(self) -> AutoSnapshots:
        if self.services.snapshots is None:
            raise SystemFault("There are no snapshots here.", hint="Open the workspace as a whole.")
        return self.services.snapshots

    @property
    def agent_paths(self) -> AgentPaths:
        if self.services.agent_paths is None:
            raise SystemFault("There is no memory here.", hint="Open the workspace as a whole.")
        return self.services.agent_paths

    @property
    def sharing_service(self) -> SharingService:
        if self.services.sharing_service is None:
            raise ToolError(
                "There are no other agents to share with here.",
                hint="Sharing needs `toolyard.workspace` and several `agents` in the configuration, and --agent.",
            )
        return self.services.sharing_service

    def open(self, path: object, *kinds: Kind, argument: str = "path") -> Target:
        """What `path` names, if this call may do all of `kinds` to it. The caller closes it."""
        spelled = self.mounts.clean(path, field=argument)
        for kind in kinds:
            self.require(Action(kind, self.call.tool, spelled, spelled, agent=self.call.agent))
        if not self.may_block and not self.mounts.is_declared(spelled):
            self.require_thread()  # nobody knows what kind of disk is out there
        if Kind.WRITE in kinds:
            self.before_write(path=spelled)
        target = self.mounts.find(spelled)
        real = target.real
        try:
            if real != spelled:
                for kind in kinds:
                    self.require(Action(kind, self.call.tool, spelled, real, agent=self.call.agent))
                if Kind.WRITE in kinds:
                    self.before_write(path=real)
            if not self.may_block and not _is_small_and_local(target):
                self.require_thread()
        except BaseException:
            target.handle.close()
            raise
        return target

    def before_write(self, risk: Action | None = None, path: str | None = None) -> None:
        """Say that what comes next may change what lies at `path`, or anything. It is kept first, as a snapshot.

        `risk` is an action that may delete or overwrite anything. Where no snapshot could be taken, it is put to
        whoever can be asked, or announced before it runs.
        """
        for keeper in self._snapshots_for(path):
            self.may_have_changed = True
            if keeper not in self.touched_snapshots:
                self.touched_snapshots.append(keeper)
            if not keeper.is_undo_ready:
                why = keeper.before_change(self, risky=risk is not None and _may_destroy(risk))
                if why and risk is not None:
                    self._warn_irreversible(risk, why, keeper)
            self.begin_change(keeper, path)

    def begin_change(self, snapshots: AutoSnapshots, path: str | None = None) -> None:
        """Name this call as the one that changes `path`, or anything, in the keeper's folder from now on."""
        if (snapshots, path) not in self.pending_changes:
            if snapshots.calls.records_authors:
                self.require_thread()
            self.pending_changes[snapshots, path] = snapshots.calls.begin(self.call.tool, path)

    def change_sink(self, *, keeps_session: bool = False) -> ChangeSink | None:
        """Where a sandbox records what this call's command changes; None where only one agent works.

        `keeps_session`: what the command leaves running goes on after this call.
        """
        begun = [(keeper.calls, number) for (keeper, path), number in self.pending_changes.items() if path is None]
        recorded = [(calls, number) for calls, number in begun if calls.records_authors]
        for calls, number in recorded if keeps_session else ():
            calls.record_session(number)
        return _CommandChangeSink(tuple(recorded)) if recorded else None

    def end_changes(self) -> None:
        """Say that this call changes nothing any more."""
        while self.pending_changes:
            (keeper, _), number = self.pending_changes.popitem()
            keeper.calls.end(number)

    def _snapshots_for(self, path: str | None) -> list[AutoSnapshots]:
        """Of the workspace and the writable context paths, those that have `path`; of None, all."""
        workspace = self.services.snapshots
        found = [
            each for each in self.services.context_snapshots if path is None or is_beneath(path, each.location.root)
        ]
        if workspace is not None and (path is None or is_beneath(path, self.mounts.workspace.path)):
            found.insert(0, workspace)
        return found

    def _warn_irreversible(self, risk: Action, why: str, snapshots: AutoSnapshots) -> None:
        """Have it known before `risk` runs that it could not be undone."""
        root = snapshots.location.root
        what = f"What this deletes or overwrites in {root}" if snapshots.location.is_context_path else _LOSS_SUBJECT
        said = f"{what} cannot be brought back, because no snapshot could be taken: {why.rstrip('.')}."
        question = replace(risk, path=root, real_path=root)  # another one than whether it may run
        if question in self.approved_actions:
            return
        if self.call.ask is not deny_without_asking:
            raise ApprovalRequired(question, Decision(Effect.ASK, said, "snapshots"))
        if self.call.warn is not None:
            self.call.warn(said)
        elif snapshots.notices.announce_once(why, self.call.session):
            raise ToolError(
                f"Nothing was run yet. {said}",
                hint="Tell the user. Where that is acceptable, make the same call again: it and later ones run.",
                retryable=True,
            )

    def after_write(self) -> None:
        """Say that the workspace may have changed: a snapshot follows when it has been quiet for a moment."""
        for keeper in self.touched_snapshots or self._snapshots_for(self.mounts.workspace.path):
            keeper.schedule_snapshot(self.call.tool)

    def before_upstream_call(self, name: str, schema: ToolSchema) -> None:
        """Say that a tool of somebody else's is called next. One that changes files is a change of the workspace."""
        detector = self.services.detector
        if detector is not None and detector.learn(name, schema.input_schema, schema.annotations):
            self.before_write()

    def require_thread(self) -> None:
        """Say that what comes next may take long. A call that others wait for ends here and begins again in a thread.

        For tools, before they change anything.
        """
        if not self.may_block:
            raise MustRunInThread

    def check_can_wait(self) -> None:
        """Pass while this call may go on waiting for somebody else."""
        self.require_thread()
        self.check_time()

    def check_displacement(self, source: Target) -> None:
        """Pass when this call may take the folder `source` from its place: a home or a repository needs a yes."""
        action = Action(Kind.WRITE, self.call.tool, source.path, source.real, displaces=True, agent=self.call.agent)
        if self.services.policy.decide(action).rule == CIRCUIT_BREAKER:  # the plain write was judged before
            self.require(action)

    def check_move(self, source: Target, destination: Target) -> None:
        """Pass when everything inside the folder `source` may leave its place and be put below `destination`.

        The policy judged the folders by their own names. What they hold is judged here, at the old path and the new:
        otherwise a protected file could be moved with the folder around it, put in place inside one, or be read
        under a name that no rule knows.
        """
        # Whoever said yes to the folder said yes to what the same rule asks about its content.
        named = {source.path, destination.path}
        answered = {decision.rule for action, decision in self.decisions if action.path in named}
        old, new = source.real, destination.real
        for inside in walk_entries(source.root, source.relative, self.check_time):
            for kind, folder in ((Kind.READ, old), (Kind.WRITE, old), (Kind.WRITE, new)):
                path = os.path.join(folder, inside)
                action = Action(kind, self.call.tool, path, path, agent=self.call.agent)
                decision = self.services.policy.decide(action)
                if decision.effect is Effect.DENY:
                    self.decisions.append((action, decision))
                    raise SecurityError.from_refusal(
                        f"{self.mounts.display_path(source.path)} cannot be moved for what it holds. {decision.reason}"
                    )
                if decision.effect is Effect.ASK and decision.rule not in answered:
                    self.require(action)

    def check_command(self, command: str, folder: str = "") -> None:
        """Pass when this call may run `check_command`, which starts in `folder`; empty for the workspace."""
        action = Action(Kind.EXECUTE, self.call.tool, command=command, folder=folder or None, agent=self.call.agent)
        self._check_execution(action)

    def check_code(self, code: str) -> None:
        """Pass when this call may run this Python code."""
        self._check_execution(Action(Kind.EXECUTE, self.call.tool, code=code, agent=self.call.agent))

    def _check_execution(self, action: Action) -> None:
        self.require(action)
        if self.services.policy.mode is not PermissionMode.PLAN:  # there nothing can be written
            self.before_write(action)

    def route_approvals_to_caller(self) -> AbstractContextManager[None]:
        """While the block runs, tools that the code calls ask whoever made this call."""
        mode = self.services.codemode
        if mode is None or self.loop is None:
            return nullcontext()
        return mode.approvals.route_to(self.call.ask, self.loop)

    def add_audit_note(self, text: str) -> None:
        """Something that the audit log shall say about this call."""
        self.audit_notes.append(text)

    def add_result_note(self, text: str) -> None:
        """A line for whoever gets the result; the audit log has it too."""
        self.result_notes.append(text)
        self.add_audit_note(text)

    def is_visible(self, path: str) -> bool:
        """Whether a file met on the way (a search hit, a listing) may be shown without asking."""
        if self.services.policy.is_visible(path):
            return True
        return any(
            kept.kind is Kind.READ and kept.real_path is not None and is_beneath(path, kept.real_path)
            for kept in self.approved_actions
        ) and self._needs_only_approval(path)

    def _needs_only_approval(self, path: str) -> bool:
        return self.services.policy.decide(Action(Kind.READ, self.call.tool, path, path)).effect is Effect.ASK

    def require(self, action: Action) -> None:
        decision = self.services.policy.decide(action)
        self.decisions.append((action, decision))
        if decision.effect is Effect.DENY:
            raise SecurityError.from_refusal(decision.reason)
        if decision.effect is Effect.ASK and not self._is_approved(action):
            raise ApprovalRequired(action, decision)

    def _is_approved(self, action: Action) -> bool:
        # Whoever may write a file may see it: one question, not two.
        return action in self.approved_actions or replace(action, kind=Kind.WRITE) in self.approved_actions

    def check_time(self) -> None:
        """Raise when the call was cancelled or is past its deadline. For loops that take long."""
        if self.cancelled.is_set():
            raise ToolError("The call was stopped before it finished.", hint="Ask for less, then try again.")
        if time.monotonic() > self.deadline:
            raise self.timeout_error()

    def timeout_error(self) -> ToolError:
        return ToolError(
            f"{self.call.tool} took longer than {self.timeout_seconds or self.limits.call_seconds:g} seconds.",
            hint="Ask for less.",
            retryable=True,
        )

    def strictest_decision(self) -> tuple[Action, Decision] | None:
        """The most restrictive thing decided in this call, for the audit log."""
        return max(self.decisions, key=lambda pair: _STRICTNESS[pair[1].effect], default=None)


def _may_destroy(action: Action) -> bool:
    """Whether a run may delete or overwrite files: all but commands that surely only read."""
    from toolyard.policy.shell import analyse  # few calls need it

    return action.command is None or not analyse(action.command).read_only


def _is_small_and_local(target: Target) -> bool:
    """Whether what was found is small, and on the root's own disk: another may be mounted anywhere beneath it."""
    status = target.handle.status
    return status.st_dev == target.root.device and (not target.handle.is_file or status.st_size <= _INLINE_MAX_BYTES)
