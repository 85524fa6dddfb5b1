"""The context of one call: checks every path and command that a tool uses against the policy.

A tool's function runs in a worker thread and asks the CallContext before it touches anything. Paths are checked
twice: as they were spelled, before anything is opened, and again where the opened handle really lies. Where the
policy says `ask`, the context raises ApprovalRequired; the dispatcher asks the user and, if the answer is yes, runs
the function again with that action approved.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.calls import Call, deny_without_asking
from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.limits import KIB, Limits
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.read_tracker import ReadTracker
from toolyard.dispatch.services import WorkspaceServices
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

_LOSS_SUBJECT = "What this deletes or overwrites"
_INLINE_MAX_BYTES = 256 * KIB
_STRICTNESS = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}


class ApprovalRequired(Exception):  # noqa: N818 - a question, not an error
    """The policy requires the user's approval before this action."""

    def __init__(self, action: Action, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.action = action
        self.decision = decision


@dataclass(frozen=True, slots=True)
class _CommandChangeSink:
    """Forwards the changes of a command to the record of each folder that it may write. See `ChangeSink`."""

    calls: tuple[tuple[RunningCalls, int], ...]

    def report_coverage(self, *, is_complete: bool) -> None:
        for calls, number in self.calls:
            calls.set_complete(number, is_complete=is_complete)

    def add_changes(self, paths: Sequence[ChangedPath]) -> None:
        for calls, number in self.calls:
            calls.add_changes(number, paths)


class MustRunInThread(Exception):  # noqa: N818 - control flow, not an error
    """The call may take long and was started on the event loop's thread: run it again in a worker thread."""


class CallPermissions:
    """What one call may do: the policy decides about each action, and the user may have approved some."""

    __slots__ = ("_policy", "_tool", "approved_actions", "decisions")

    def __init__(self, policy: Policy, tool: str, approved_actions: frozenset[Action] = frozenset()) -> None:
        self._policy = policy
        self._tool = tool
        self.approved_actions = approved_actions
        self.decisions: list[tuple[Action, Decision]] = []
        """Every action that was attempted, with the policy's decision."""

    def require(self, action: Action) -> None:
        """Records the policy's decision about `action`.

        Raises SecurityError if it is denied, ApprovalRequired to ask.
        """
        decision = self._policy.decide(action)
        self.decisions.append((action, decision))
        if decision.effect is Effect.DENY:
            raise SecurityError.from_refusal(decision.reason)
        if decision.effect is Effect.ASK and not self._is_approved(action):
            raise ApprovalRequired(action, decision)

    def is_visible(self, path: str) -> bool:
        """Whether a file that turns up in a search or a listing may be shown without asking."""
        if self._policy.is_visible(path):
            return True
        return any(
            approved.kind is Kind.READ and approved.real_path is not None and is_beneath(path, approved.real_path)
            for approved in self.approved_actions
        ) and self._needs_only_approval(path)

    def strictest_decision(self) -> tuple[Action, Decision] | None:
        """Returns the most restrictive decision of this call, for the audit log."""
        return max(self.decisions, key=lambda pair: _STRICTNESS[pair[1].effect], default=None)

    def _is_approved(self, action: Action) -> bool:
        # Approval to write a file includes reading it: the user is asked once, not twice.
        return action in self.approved_actions or replace(action, kind=Kind.WRITE) in self.approved_actions

    def _needs_only_approval(self, path: str) -> bool:
        return self._policy.decide(Action(Kind.READ, self._tool, path, path)).effect is Effect.ASK


class CallBudget:
    """How long one call may take, and whether it should stop. Used from the call's thread and the event loop's."""

    __slots__ = ("_tool", "cancelled", "deadline", "may_block", "seconds")

    def __init__(self, tool: str, seconds: float, *, deadline: float = float("inf"), may_block: bool = True) -> None:
        self._tool = tool
        self.seconds = seconds
        self.deadline = deadline
        """When the time is over, by the monotonic clock; infinite until `start`."""
        self.cancelled = threading.Event()
        self.may_block = may_block
        """False while the call runs on the event loop's thread, where every other call waits for it."""

    def start(self) -> None:
        """Starts the clock, again if the call has waited for an approval."""
        self.deadline = time.monotonic() + self.seconds

    def check_time(self) -> None:
        """Raises ToolError if the call was cancelled or its deadline has passed. For loops that may take long."""
        if self.cancelled.is_set():
            raise ToolError("The call was stopped before it finished.", hint="Ask for less, then try again.")
        if time.monotonic() > self.deadline:
            raise self.timeout_error()

    def require_thread(self) -> None:
        """Raises MustRunInThread if the call runs on the event loop's thread.

        Tools call this before work that may take long, and before they change anything: the call starts again in a
        thread.
        """
        if not self.may_block:
            raise MustRunInThread

    def timeout_error(self) -> ToolError:
        return ToolError(
            f"{self._tool} took longer than {self.seconds:g} seconds.", hint="Ask for less.", retryable=True
        )


class CallNotes:
    """What one call has to tell: lines for its result, for the audit log, and for progress messages."""

    __slots__ = ("for_audit", "for_result", "status")

    def __init__(self) -> None:
        self.for_audit: list[str] = []
        self.for_result: list[str] = []
        self.status = ""
        """What a long call is doing now."""

    def add_audit_note(self, text: str) -> None:
        """Adds a note about this call to the audit log."""
        self.for_audit.append(text)

    def add_result_note(self, text: str) -> None:
        """Adds a line to the result, and to the audit log."""
        self.for_result.append(text)
        self.for_audit.append(text)


class CallContext:
    """The permissions, the time budget and the notes of one call.

    Tools reach files, commands and services through it.
    """

    def __init__(
        self,
        services: WorkspaceServices,
        call: Call,
        *,
        approved_actions: frozenset[Action] = frozenset(),
        deadline: float = float("inf"),
        may_block: bool = True,
    ) -> None:
        self.services = services
        self.call = call
        self.permissions = CallPermissions(services.policy, call.tool, approved_actions)
        self.budget = CallBudget(call.tool, services.limits.call_seconds, deadline=deadline, may_block=may_block)
        self.notes = CallNotes()
        self.started = False
        """Whether the tool's function was started, so that it may have had an effect."""
        self.completed = False
        """Whether the tool's function finished its work, even if the caller has left since."""
        self.touched_snapshots: list[AutoSnapshots] = []
        """The snapshots of the folders that the call may have changed."""
        self.pending_changes: dict[tuple[AutoSnapshots, str | None], int] = {}
        """Changes of this call that have begun and not ended, by folder and path."""
        self.continues_in_background = False
        """Whether a command of this call keeps running in the background."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop on which approvals for this call are requested."""
        self.listeners_notified = False
        """Whether the listeners for file operations were notified of this call."""

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
        return self.services.codemode

    @property
    def read_tracker(self) -> ReadTracker:
        return self.services.read_tracker

    @property
    def snapshots(self) -> AutoSnapshots:
        return self.services.snapshots

    @property
    def agent_paths(self) -> AgentPaths:
        return self.services.agent_paths

    @property
    def sharing_service(self) -> SharingService:
        """Raises ToolError for an agent without peers."""
        return self.services.get_sharing()

    def open(self, path: object, *kinds: Kind, argument: str = "path") -> Target:
        """Opens `path` if this call may do all of `kinds` to it. The caller closes the target."""
        spelled = self.mounts.clean(path, field=argument)
        for kind in kinds:
            self.permissions.require(Action(kind, self.call.tool, spelled, spelled, agent=self.call.agent))
        if not self.budget.may_block and not self.mounts.is_declared(spelled):
            self.require_thread()  # the path may lie on a slow or remote file system
        if Kind.WRITE in kinds:
            self.before_write(path=spelled)
        target = self.mounts.find(spelled)
        real = target.real
        try:
            if real != spelled:
                for kind in kinds:
                    self.permissions.require(Action(kind, self.call.tool, spelled, real, agent=self.call.agent))
                if Kind.WRITE in kinds:
                    self.before_write(path=real)
            if not self.budget.may_block and not _is_small_and_local(target):
                self.require_thread()
        except BaseException:
            target.handle.close()
            raise
        return target

    def before_write(self, risk: Action | None = None, path: str | None = None) -> None:
        """Prepares for a change at `path`, or anywhere if `path` is None: takes a snapshot if one is due.

        `risk` is an action that may delete or overwrite anything. If no snapshot could be taken, the user is asked
        about it, or warned before it runs.
        """
        for snapshots in self._snapshots_for(path):
            if snapshots not in self.touched_snapshots:
                self.touched_snapshots.append(snapshots)
            if not snapshots.is_undo_ready:
                why = snapshots.before_change(self, risky=risk is not None and _may_destroy(risk))
                if why and risk is not None:
                    self._warn_irreversible(risk, why, snapshots)
            self.begin_change(snapshots, path)

    def begin_change(self, snapshots: AutoSnapshots, path: str | None = None) -> None:
        """Registers this call as the author of changes to `path`, or to anything in the folder, from now on."""
        if (snapshots, path) not in self.pending_changes:
            if snapshots.calls.records_authors:
                self.require_thread()
            self.pending_changes[snapshots, path] = snapshots.calls.begin(self.call.tool, path)

    def change_sink(self, *, keeps_session: bool = False) -> ChangeSink | None:
        """Returns the sink that records what this call's command changes; None if only one agent works here.

        `keeps_session`: processes that the command leaves running continue after this call.
        """
        begun = [
            (snapshots.calls, number) for (snapshots, path), number in self.pending_changes.items() if path is None
        ]
        recorded = [(calls, number) for calls, number in begun if calls.records_authors]
        for calls, number in recorded if keeps_session else ():
            calls.record_session(number)
        return _CommandChangeSink(tuple(recorded)) if recorded else None

    def end_changes(self) -> None:
        """Ends every pending change: this call changes nothing more."""
        while self.pending_changes:
            (snapshots, _), number = self.pending_changes.popitem()
            snapshots.calls.end(number)

    def _snapshots_for(self, path: str | None) -> list[AutoSnapshots]:
        """Returns the snapshots of the folders that contain `path`, or of all writable folders if it is None."""
        found = [
            each for each in self.services.context_snapshots if path is None or is_beneath(path, each.location.root)
        ]
        if path is None or is_beneath(path, self.mounts.workspace.path):
            found.insert(0, self.services.snapshots)
        return found

    def _warn_irreversible(self, risk: Action, why: str, snapshots: AutoSnapshots) -> None:
        """Asks or warns the user, before `risk` runs, that it cannot be undone."""
        root = snapshots.location.root
        what = f"What this deletes or overwrites in {root}" if snapshots.location.is_context_path else _LOSS_SUBJECT
        message = f"{what} cannot be restored, because no snapshot could be taken: {why.rstrip('.')}."
        question = replace(risk, path=root, real_path=root)  # differs from the approval to run it
        if question in self.permissions.approved_actions:
            return
        if self.call.ask is not deny_without_asking:
            raise ApprovalRequired(question, Decision(Effect.ASK, message, "snapshots"))
        if self.call.warn is not None:
            self.call.warn(message)
        elif snapshots.notices.announce_once(why, self.call.session):
            raise ToolError(
                f"Nothing was run yet. {message}",
                hint="Tell the user. Where that is acceptable, make the same call again: it and later ones run.",
                retryable=True,
            )

    def after_write(self) -> None:
        """Schedules a snapshot of the changed folders, taken once they have been quiet for a moment."""
        for snapshots in self.touched_snapshots or self._snapshots_for(self.mounts.workspace.path):
            snapshots.schedule_snapshot(self.call.tool)

    def before_upstream_call(self, name: str, schema: ToolSchema) -> None:
        """Prepares for a call of an upstream tool. A tool that changes files counts as a change of the workspace."""
        if self.services.detector.learn(name, schema.input_schema, schema.annotations):
            self.before_write()

    def require_thread(self) -> None:
        """See `CallBudget.require_thread`."""
        self.budget.require_thread()

    def check_time(self) -> None:
        """See `CallBudget.check_time`."""
        self.budget.check_time()

    def check_can_wait(self) -> None:
        """Raises unless this call may block and has time left."""
        self.budget.require_thread()
        self.budget.check_time()

    def check_displacement(self, source: Target) -> None:
        """Checks that this call may move the folder `source` away: a home folder or a repository needs approval."""
        action = Action(Kind.WRITE, self.call.tool, source.path, source.real, displaces=True, agent=self.call.agent)
        if self.services.policy.decide(action).rule == CIRCUIT_BREAKER:  # the plain write was decided before
            self.permissions.require(action)

    def check_move(self, source: Target, destination: Target) -> None:
        """Checks that everything inside the folder `source` may be moved to `destination`.

        The policy has already decided about the two folders by their own names. Their content is checked here, at the
        old path and at the new one. Otherwise a protected file could be moved along with its folder, be placed inside
        a protected folder, or become readable under a name that no rule covers.
        """
        # Approval of the folder includes what the same rule asks about its content.
        named = {source.path, destination.path}
        answered = {decision.rule for action, decision in self.permissions.decisions if action.path in named}
        old, new = source.real, destination.real
        for inside in walk_entries(source.root, source.relative, self.check_time):
            for kind, folder in ((Kind.READ, old), (Kind.WRITE, old), (Kind.WRITE, new)):
                path = os.path.join(folder, inside)
                action = Action(kind, self.call.tool, path, path, agent=self.call.agent)
                decision = self.services.policy.decide(action)
                if decision.effect is Effect.DENY:
                    self.permissions.decisions.append((action, decision))
                    shown = self.mounts.display_path(source.path)
                    raise SecurityError.from_refusal(
                        f"{shown} cannot be moved because of its content. {decision.reason}"
                    )
                if decision.effect is Effect.ASK and decision.rule not in answered:
                    self.permissions.require(action)

    def check_command(self, command: str, folder: str = "") -> None:
        """Checks that this call may run `command`, which starts in `folder`; in the workspace if that is empty."""
        action = Action(Kind.EXECUTE, self.call.tool, command=command, folder=folder or None, agent=self.call.agent)
        self._check_execution(action)

    def check_code(self, code: str) -> None:
        """Checks that this call may run this Python code."""
        self._check_execution(Action(Kind.EXECUTE, self.call.tool, code=code, agent=self.call.agent))

    def _check_execution(self, action: Action) -> None:
        self.permissions.require(action)
        if self.services.policy.mode is not PermissionMode.PLAN:  # in plan mode nothing can be written
            self.before_write(action)

    def route_approvals_to_caller(self) -> AbstractContextManager[None]:
        """While the block runs, tools that the code calls ask the caller of this call for approval."""
        if self.loop is None or self.call.ask is deny_without_asking:
            return nullcontext()
        return self.codemode.approvals.route_to(self.call.ask, self.loop)

    def add_audit_note(self, text: str) -> None:
        """See `CallNotes.add_audit_note`."""
        self.notes.add_audit_note(text)

    def add_result_note(self, text: str) -> None:
        """See `CallNotes.add_result_note`."""
        self.notes.add_result_note(text)


def _may_destroy(action: Action) -> bool:
    """Whether a run may delete or overwrite files: all except commands that are known to only read."""
    from toolyard.policy.shell import analyse  # few calls need it

    return action.command is None or not analyse(action.command).read_only


def _is_small_and_local(target: Target) -> bool:
    """Whether the target is small and on the root's own disk.

    Another file system may be mounted anywhere beneath it.
    """
    status = target.handle.status
    return status.st_dev == target.root.device and (not target.handle.is_file or status.st_size <= _INLINE_MAX_BYTES)
