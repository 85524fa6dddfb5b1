"""Calls upstream and custom tools: authorises, decides, calls and records, for every kind of caller.

Calls from sandboxed code, from the command line and from clients that have the tool in their context all come here.
It runs on the loop of the connections, so that a call crosses no thread. Exactly one event is recorded for each call,
however it ends; while the log cannot be written, nothing is called.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolyard.codemode.catalog import CatalogBusy, KnownTool, ToolChange
from toolyard.codemode.rate_limits import RateLimits
from toolyard.codemode.result_schema_inference import infer_result_schema
from toolyard.config.authorization import Authorization
from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.calls import AnswerPending, ApprovalCallback
from toolyard.core.eager_call import switch_to_task
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.ids import new_id
from toolyard.core.upstream import Json, ServerListing, ToolSchema, UpstreamProgress, UpstreamResult
from toolyard.policy.policy import Policy
from toolyard.snapshots.service.auto_snapshots import AutoSnapshots
from toolyard.storage.audit_log import AuditRecorder, EventLog
from toolyard.workspace.file_tool_detector import FilesystemToolDetector, OperationOutcome, Origin

_OUTCOMES = {"security": CallOutcome.DENIED, "validation": CallOutcome.INVALID}
_SHOWN_NAMES = 8
_MAX_GUESS_CHARS = 100
"""Characters of a wrong name that are compared: longer ones take longer."""
_BUSY_SECONDS = 10.0
_BUSY_PAUSE = 0.05
_VERSION_CHECK_SECONDS = 0.02
"""How long a sync of another process may go unnoticed: each check costs a tenth of a call."""


class CallTarget(Protocol):
    """The destination of calls: the pool of connections, or the custom tools."""

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float | None = None,  # noqa: ASYNC109 - part of the call: the server receives it, too
        progress: UpstreamProgress | None = None,
    ) -> UpstreamResult: ...

    def can_run_eagerly(self, server: str) -> bool:
        """Whether a call needs no task of its own."""
        ...

    async def server_listing(self, server: str) -> ServerListing:
        """Returns the listing of a server, the same object until it may have changed. Starts
        the server if necessary.
        """
        ...


class PinnedTools(Protocol):
    """What is known of the tools: the catalog, or the custom tools."""

    def tool(self, server: str, name: str) -> KnownTool | None: ...

    def tool_names(self, server: str) -> tuple[str, ...]: ...

    def version(self) -> int: ...

    def record_listing(
        self, listing: ServerListing, evidence: str | None, *, is_trusted: bool = False
    ) -> tuple[ToolChange, ...]: ...

    def save_inferred_schema(self, server: str, tool: str, schema: Json) -> None: ...


def adopt_no_server(_: str) -> bool:
    """Adopts no further server."""
    return False


class NotAuthorized(SecurityError):  # noqa: N818 - a sentence about the agent
    """The agent's configuration does not allow this server or tool."""


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """One call of an upstream or custom tool."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    agent: str
    surface: str
    ask: ApprovalCallback
    session: str = ""
    timeout: float | None = None
    progress: UpstreamProgress | None = None
    is_custom: bool = False
    """Whether it is a custom tool; its group is in `server`."""

    @property
    def name(self) -> str:
        """The name that rules and events use."""
        return f"{self.server}.{self.tool}" if self.is_custom else f"mcp__{self.server}__{self.tool}"


@dataclass(slots=True)
class _CallRecord:
    """How a call ended, for its event."""

    decision: Decision | None = None
    called: bool = False
    outcome: CallOutcome = CallOutcome.FAILED
    code: int = SystemFault.code
    reason: str = "The call was aborted."

    def finish(self, outcome: CallOutcome, code: int = 0, reason: str = "") -> None:
        self.outcome, self.code, self.reason = outcome, code, reason


@dataclass(slots=True)
class UpstreamCaller:
    """Calls tools of one target. Only for use on the target's loop."""

    policy: Policy
    audit: EventLog
    catalog: PinnedTools
    target: CallTarget
    authorization: Authorization
    rate_limits: RateLimits | None
    """None if the configuration limits no tool."""
    servers: Collection[str]
    origin: Origin
    """Who makes the calls, for the listeners of `detector`."""
    on_schema_learnt: Callable[[], None]
    """Called when the catalog knows more about a tool than its file says."""
    trusted_servers: Collection[str] = ()
    """Servers whose tools may change without being accepted again."""
    adopt_server: Callable[[str], bool] = adopt_no_server
    """Attaches a server that was configured and synced meanwhile. Returns whether it exists."""
    detector: FilesystemToolDetector | None = None
    """Receives each call, which may have read or changed files."""
    snapshots: Sequence[AutoSnapshots] = ()
    """Scheduled after each call that may change files: those of the workspace first, then of context paths."""
    _known: dict[tuple[str, str], KnownTool] = field(default_factory=dict[tuple[str, str], KnownTool])
    _verified: dict[str, ServerListing] = field(default_factory=dict[str, ServerListing])
    _version: int = -1
    _next_version_check: float = 0.0
    _recorder: AuditRecorder = field(init=False)

    def __post_init__(self) -> None:
        self._recorder = AuditRecorder(self.audit)

    async def call(self, call: UpstreamCall) -> UpstreamResult:
        """Calls a tool and records the call."""
        started = time.perf_counter()
        record = _CallRecord()
        try:
            self._recorder.write_pending()
            answer = await self._decide_and_call(call, record)
            if answer.is_error:
                record.finish(CallOutcome.FAILED, ToolError.code, "The tool reported an error.")
            else:
                record.finish(CallOutcome.OK)
        except asyncio.CancelledError:
            record.finish(CallOutcome.CANCELLED)
            raise
        except AnswerPending:
            record.finish(CallOutcome.ASKED)
            raise
        except ToolyardError as error:
            record.finish(_OUTCOMES.get(error.kind, CallOutcome.FAILED), error.code, _first_sentence(error))
            raise
        finally:
            event = _audit_event(call, record, (time.perf_counter() - started) * 1000)
            fault = self._recorder.record(event, ran=record.called)
        if fault is not None:
            called = f"{call.name} was called, but the call could not be recorded."
            raise SystemFault(f"{called} {fault.message}", hint=fault.hint)
        return answer

    async def _decide_and_call(self, call: UpstreamCall, record: _CallRecord) -> UpstreamResult:
        known = await self._approved_tool(call, record)
        if self.rate_limits is not None:
            self.rate_limits.count_call(call.agent, call.server, call.tool)
        record.called = True
        is_ok = False
        try:
            answer = await self.target.call(call.server, call.tool, call.arguments, call.timeout, call.progress)
            is_ok = not answer.is_error
        finally:
            if self.detector is not None:
                self._report_file_operation(self.detector, call, known.schema, is_ok=is_ok)
        if known.schema.output_schema is None and known.inferred is None:
            self._learn(call, answer)
        return answer

    def _report_file_operation(
        self, detector: FilesystemToolDetector, call: UpstreamCall, schema: ToolSchema, *, is_ok: bool
    ) -> None:
        """Schedules snapshots after a call that may have changed files, and tells the listeners about it."""
        if detector.learn(call.name, schema.input_schema, schema.annotations):
            for snapshots in self.snapshots:
                snapshots.schedule_snapshot(call.name)
        detector.notify_filesystem_operation(
            *(call.name, call.arguments),
            outcome=OperationOutcome.OK if is_ok else OperationOutcome.FAILED,
            snapshot=self.snapshots[0].newest_id if self.snapshots else "",
            origin=self.origin,
        )

    async def _approved_tool(self, call: UpstreamCall, record: _CallRecord) -> KnownTool:
        """Returns the tool once the call is approved. A refused call starts no server."""
        known = self._authorized_tool(call)
        while True:
            await self._decide(call, known, record)
            current = await self._verified_tool(call, known)
            if current is known or current.schema == known.schema:
                return current
            known = current  # a trusted server has changed it, so the decision no longer applies

    async def _decide(self, call: UpstreamCall, known: KnownTool, record: _CallRecord) -> None:
        action = Action(Kind.CALL, call.name, agent=call.agent, claims_read_only=known.schema.is_read_only)
        decision = self.policy.decide(action)
        limits = self.rate_limits
        if decision.effect is Effect.ALLOW and limits and limits.requires_approval(call.server, call.tool):
            decision = Decision(Effect.ASK, f"The limits of {call.name} say to ask before each call.")
        record.decision = decision
        if decision.effect is Effect.DENY:
            raise SecurityError.from_refusal(decision.reason)
        if decision.effect is Effect.ASK:
            await self._ask(call, action, decision)

    async def _verified_tool(self, call: UpstreamCall, known: KnownTool) -> KnownTool:
        """Returns the tool after verifying that the running server still matches its pins."""
        return self._authorized_tool(call) if await self.verify(call.server) else known

    def forget(self, server: str) -> None:
        """Discards cached knowledge of a server that was detached or replaced."""
        self._known.clear()
        self._verified.pop(server, None)

    async def verify(self, server: str) -> bool:
        """Records how the tools of a server differ from the pins. Returns whether its listing is new."""
        listing = await self.target.server_listing(server)
        if self._verified.get(server) is listing:
            return False
        is_trusted = server in self.trusted_servers
        if await self._record_listing(listing, is_trusted=is_trusted):
            self._known.clear()
            if is_trusted:
                self.on_schema_learnt()
        self._verified[server] = listing
        return True

    async def _record_listing(self, listing: ServerListing, *, is_trusted: bool) -> tuple[ToolChange, ...]:
        """Records a listing and returns the changes. While another process writes, only this call waits."""
        last = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return self.catalog.record_listing(listing, None, is_trusted=is_trusted)
            except CatalogBusy:
                if time.monotonic() >= last:
                    raise
            await switch_to_task()
            await asyncio.sleep(_BUSY_PAUSE)

    def _authorized_tool(self, call: UpstreamCall) -> KnownTool:
        """Returns the tool, if this agent may call it."""
        server, tool = call.server, call.tool
        now = time.monotonic()
        if now >= self._next_version_check:
            self._next_version_check = now + _VERSION_CHECK_SECONDS
            version = self.catalog.version()
            if version != self._version:  # another process has synced
                self._known.clear()
                self._version = version
        known = self._known.get((server, tool))
        if known is None:
            if server not in self.servers and not self.adopt_server(server):
                raise ValidationError.of(
                    "server", f"there is no server {server[:100]!r}", hint=_suggest_name(server, self.servers)
                )
            if not self.authorization.may_use(server):
                raise NotAuthorized(f"Agent '{call.agent}' not authorized for server '{server}'")
            if not self.authorization.may_call(server, tool):
                raise NotAuthorized(f"Agent '{call.agent}' not authorized for tool '{tool}' of server '{server}'")
            known = self.catalog.tool(server, tool)
            if known is None:
                names = self.catalog.tool_names(server)
                hint = (
                    _suggest_name(tool, names)
                    if names
                    else f"Its tools are not known yet: run `toolyard sync {server}`."
                )
                raise ValidationError.of("tool", f"{server} has no tool {tool[:100]!r}", hint=hint)
            if known.pending is None:
                self._known[server, tool] = known
        if known.pending is not None:
            raise SecurityError(
                f"{server}.{tool} has changed since it was pinned, and the change is not accepted yet.",
                hint=f"Let the user look at it (`toolyard sync`), then accept it: `toolyard sync --accept {server}`.",
            )
        return known

    def can_run_eagerly(self, server: str) -> bool:
        return self.target.can_run_eagerly(server)

    async def _ask(self, call: UpstreamCall, action: Action, decision: Decision) -> None:
        await switch_to_task()
        if not await call.ask(action, decision):
            raise SecurityError(
                f"{decision.reason} It was not approved.",
                hint=f"Ask the user to allow it (the rule {call.name}), or do without.",
            )

    def _learn(self, call: UpstreamCall, answer: UpstreamResult) -> None:
        shape = infer_result_schema(answer)
        if shape is None:
            return
        try:
            self.catalog.save_inferred_schema(call.server, call.tool, shape)
        except CatalogBusy:  # the next result serves as well
            return
        self._known.pop((call.server, call.tool), None)
        self.on_schema_learnt()


def _suggest_name(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name[:_MAX_GUESS_CHARS], known, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    if not known:
        return "No server is attached: pass the file that configures them with `--config F`."
    listed = sorted(known)[:_SHOWN_NAMES]
    more = f" and {len(known) - len(listed)} more" if len(known) > len(listed) else ""
    return f"There are {', '.join(listed)}{more}."


def _first_sentence(error: ToolyardError) -> str:
    """Returns the text for the log: a server's message may quote anything after its first sentence."""
    first = error.message.partition("\n")[0]
    sentence, more, _ = first.partition(". ")
    return f"{sentence}." if more else first


def _audit_event(call: UpstreamCall, record: _CallRecord, milliseconds: float) -> Event:
    decision = record.decision
    return Event(
        call=new_id(),
        surface=call.surface,
        agent=call.agent,
        session=call.session,
        tool=call.name[:MAX_TARGET_CHARS],
        kind=Kind.CALL.value,
        target="",
        decision=decision.effect.value if decision else "",
        reason=(record.reason or (decision.reason if decision else ""))[:MAX_TARGET_CHARS],
        outcome=record.outcome,
        code=record.code,
        milliseconds=round(milliseconds, 3),
    )
