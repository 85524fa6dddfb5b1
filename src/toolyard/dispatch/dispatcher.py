"""The dispatcher: validates calls, checks permissions, runs tools under a deadline, records one audit event each.

The tool's function runs in a worker thread, so a slow disk delays only its own call. When a call is cancelled or
overdue, the dispatcher signals its thread to stop and waits for it, so that the event says what really happened. If
the event cannot be written, the caller gets that error in place of the result, and further calls are refused until
the event has been written.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import anyio

from toolyard.config.suggestions import closest_match
from toolyard.core.actions import Action
from toolyard.core.calls import AnswerPending, Call, Result, Text, deny_without_asking
from toolyard.core.errors import SecurityError, SystemFault, ToolyardError, UnknownToolError
from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.fd_exhaustion import fd_exhaustion_fault
from toolyard.core.limits import KIB
from toolyard.dispatch.call_context import ApprovalRequired, CallContext, MustRunInThread
from toolyard.dispatch.call_queue import CallQueues, wait_with_progress
from toolyard.dispatch.services import WorkspaceServices
from toolyard.dispatch.tool import Tool
from toolyard.storage.audit_log import AuditRecorder, EventLog
from toolyard.workspace.file_tool_detector import OperationOutcome, Origin

_THREADS = 16
_EXECUTION_THREADS = 64  # for tools that run code, so that many commands do not delay the file tools
_DEADLINE_GRACE_SECONDS = 10.0  # a run enforces its own deadline; the dispatcher steps in only if that fails
_STOP_SECONDS = 5.0
_MAX_APPROVALS = 8  # a call that needs more approvals than this is refused
_NAME_CHARS = 100
_MAX_LISTED_TOOLS = 20
_INLINE_MAX_CHARS = 256 * KIB  # of arguments
_OUTCOMES = {"security": CallOutcome.DENIED, "validation": CallOutcome.INVALID}


class CallDispatcher:
    """Runs the calls of one workspace.

    It owns its threads until `close()`; the log and the services belong to the caller.

    `close()` cancels running calls and waits for them, because the handles that they use are closed next.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool[Any]],
        hidden: Mapping[str, Tool[Any]],
        services: WorkspaceServices,
        audit: EventLog,
    ) -> None:
        """`tools` are listed for clients; `hidden` serve transports that offer the same features in another form."""
        self.tools = tools
        self._hidden_tools = hidden
        self._services = services
        self._recorder = AuditRecorder(audit)
        self._running_calls: set[CallContext] = set()
        self._queues = CallQueues()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="toolyard-call")
        self._execution_threads = ThreadPoolExecutor(_EXECUTION_THREADS, thread_name_prefix="toolyard-run")

    def close(self) -> None:
        for ctx in tuple(self._running_calls):
            ctx.budget.cancelled.set()
        self._threads.shutdown(cancel_futures=True)
        self._execution_threads.shutdown(cancel_futures=True)
        self._recorder.write_pending()

    async def __call__(self, call: Call) -> Result:
        with self._audited_call(call) as ctx:
            return await self._run(call, ctx)

    def try_run_inline(self, call: Call) -> Result | None:
        """Runs a quick call in the calling thread. Returns None, without any effect, if the call has to be awaited.

        For a transport that serves one client on the event loop's thread: nothing else runs meanwhile.
        """
        tool = self.tools.get(call.tool)
        if tool is None or tool.is_quick is None or self._running_calls or not self._services.mounts.are_local:
            return None
        try:
            with self._audited_call(call) as ctx:
                arguments = tool.parse_arguments(call.arguments)
                if not tool.is_quick(arguments) or _text_size(call.arguments) > _INLINE_MAX_CHARS:
                    raise MustRunInThread
                ctx.started, ctx.budget.may_block = True, False
                return _run_tool(tool, arguments, ctx)
        except (MustRunInThread, ApprovalRequired):
            return None

    @contextlib.contextmanager
    def _audited_call(self, call: Call) -> Generator[CallContext]:
        """Records exactly one event for the call, however it ends, unless the call has to be awaited instead."""
        started = time.perf_counter()
        ctx = CallContext(self._services, call)
        ending: _Ending | None = _Ending(CallOutcome.FAILED, SystemFault.code, "The call was aborted.")
        try:
            if self._recorder.pending:
                self._recorder.write_pending()
            yield ctx
            ending = _Ending()
        except (MustRunInThread, ApprovalRequired):
            ending = None
            raise
        except AnswerPending:
            ending = _Ending(CallOutcome.ASKED)
            raise
        except asyncio.CancelledError:
            ending = _Ending(CallOutcome.OK if ctx.completed else CallOutcome.CANCELLED, caller_left=True)
            raise
        except ToolyardError as error:
            ending = _Ending(_OUTCOMES.get(error.kind, CallOutcome.FAILED), error.code, _audit_reason(error))
            raise
        except Exception as error:  # the outermost edge: a bug of ours must not end the server
            ending = _Ending(CallOutcome.FAILED, SystemFault.code, f"{type(error).__name__}: {error}")
            if (fault := fd_exhaustion_fault(error)) is not None:
                raise fault from error
            raise SystemFault(
                f"{call.tool} failed inside Toolyard ({type(error).__name__}).",
                hint="This is a bug in Toolyard; please report it with the audit line of this call.",
            ) from error
        finally:
            if ending is not None:
                if ending.outcome is CallOutcome.DENIED:  # the answer to a question was no
                    _notify_listeners(ctx, call.tool, OperationOutcome.DENIED)
                elapsed = (time.perf_counter() - started) * 1000
                fault = self._recorder.record(_audit_event(call, ctx, ending, elapsed), ran=ctx.started)
                if fault is not None and not ending.caller_left:
                    raise _audit_failure(ctx, ending, fault) from fault

    async def _run(self, call: Call, ctx: CallContext) -> Result:
        tool = self._find_tool(call.tool, hidden=call.hidden)
        arguments = tool.parse_arguments(call.arguments)
        ctx.budget.seconds = self._timeout_seconds(tool, arguments)
        ctx.loop = asyncio.get_running_loop()
        line = tool.queue_name(arguments) if tool.queue_name is not None else None
        if line is None:
            return await self._run_with_approvals(call, tool, arguments, ctx)
        async with self._queues.hold_turn(line, tool.name, ctx):
            return await self._run_with_approvals(call, tool, arguments, ctx)

    async def _run_with_approvals(self, call: Call, tool: Tool[Any], arguments: Any, ctx: CallContext) -> Result:
        """Runs the tool, and again after each approval that it needs."""
        ctx.budget.start()
        for asked in range(_MAX_APPROVALS + 1):
            try:
                return await self._run_in_thread(tool, arguments, ctx)
            except ApprovalRequired as question:
                if asked == _MAX_APPROVALS:
                    break
                await _request_approval(call, question)
                ctx.permissions.approved_actions |= {question.action}
                ctx.budget.start()
        raise SecurityError("The call needs too many approvals.", hint="Do less in one call.")

    async def _run_in_thread(self, tool: Tool[Any], arguments: Any, ctx: CallContext) -> Result:
        ctx.started = True
        self._running_calls.add(ctx)
        threads = self._threads if tool.max_seconds is None else self._execution_threads
        work = threads.submit(_run_tool, tool, arguments, ctx)
        work.add_done_callback(lambda _: self._running_calls.discard(ctx))
        running = asyncio.wrap_future(work)
        overdue = False
        try:
            overdue = not await wait_with_progress(running, tool.name, ctx)
        finally:
            if not running.done():
                await _cancel_and_wait(running, ctx.budget.cancelled)
        if overdue and not ctx.completed:
            raise ctx.budget.timeout_error()
        return running.result()

    def _timeout_seconds(self, tool: Tool[Any], arguments: Any) -> float:
        if tool.max_seconds is None:
            return self._services.limits.call_seconds
        return tool.max_seconds(arguments, self._services.sandboxes.limits) + _DEADLINE_GRACE_SECONDS

    def _find_tool(self, name: str, *, hidden: bool) -> Tool[Any]:
        tool = (self._hidden_tools if hidden else self.tools).get(name)
        if tool is None:
            meant = closest_match(name, self.tools)
            hint = f"Did you mean {meant}?" if meant else f"Available tools: {_listed_names(self.tools)}."
            raise UnknownToolError.of("name", f"there is no tool called {name[:_NAME_CHARS]!r}", hint=hint)
        return tool


def _listed_names(tools: Iterable[str]) -> str:
    names = list(tools)
    more = f" and {len(names) - _MAX_LISTED_TOOLS} more" if len(names) > _MAX_LISTED_TOOLS else ""
    return f"{', '.join(names[:_MAX_LISTED_TOOLS])}{more}"


def _text_size(arguments: Mapping[str, Any]) -> int:
    return sum(len(value) for value in arguments.values() if isinstance(value, str))


def _run_tool(tool: Tool[Any], arguments: Any, ctx: CallContext) -> Result:
    ctx.check_time()  # it may have waited for a thread longer than its caller did
    outcome: OperationOutcome | None = OperationOutcome.FAILED
    try:
        result = tool.run(arguments, ctx)
        outcome = OperationOutcome.FAILED if result.failed else OperationOutcome.OK
    except SecurityError:
        outcome = OperationOutcome.DENIED
        raise
    except (ApprovalRequired, MustRunInThread):
        outcome = None  # the call starts again, or the user refuses it
        raise
    finally:
        _publish_changes(tool, ctx, outcome)
    if not ctx.call.hidden:
        if ctx.call.session in ctx.services.background_sessions:
            ctx.notes.for_result += ctx.sandboxes.background_commands.end_notices(ctx.call.session)
        ctx.notes.for_result += ctx.services.new_peer_notices()
    # A read-only tool that was cancelled has no lasting effect and may have returned a partial result.
    ctx.completed = not (tool.read_only and ctx.budget.cancelled.is_set())
    notes = ctx.notes.for_result
    return replace(result, parts=(*result.parts, Text("\n".join(notes)))) if notes else result


def _publish_changes(tool: Tool[Any], ctx: CallContext, outcome: OperationOutcome | None) -> None:
    """Schedules snapshots after a call that may have changed files, however it ended, and notifies listeners."""
    if not ctx.continues_in_background:
        ctx.end_changes()
    is_upstream = tool.kind == "call"  # the code that makes the upstream call reports those
    if ctx.touched_snapshots:
        if not is_upstream:
            ctx.after_write()
        for touched in ctx.touched_snapshots:
            if touched.notices.waiting:
                ctx.notes.for_result += touched.notices.pop_all()
    if outcome is not None and not is_upstream:
        _notify_listeners(ctx, tool.name, outcome)


def _notify_listeners(ctx: CallContext, tool: str, outcome: OperationOutcome) -> None:
    detector = ctx.services.detector
    if not detector.callbacks or ctx.listeners_notified:
        return
    ctx.listeners_notified = True
    paths = (path for action, _ in ctx.permissions.decisions if (path := action.real_path or action.path))
    call = ctx.call
    origin = Origin(call.agent, call.session, call.id, call.surface)
    detector.notify_filesystem_operation(
        *(tool, call.arguments), outcome=outcome, paths=paths, snapshot=ctx.snapshots.newest_id, origin=origin
    )


async def _cancel_and_wait(running: asyncio.Future[Result], cancelled: threading.Event) -> None:
    """Signals the thread to stop and waits for it, for a bounded time, even if this task is cancelled meanwhile."""
    cancelled.set()
    running.add_done_callback(_swallow_exception)
    until = time.monotonic() + _STOP_SECONDS
    again: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):  # the SDK's scopes cancel again on every loop iteration until the task ends
        while not running.done() and (left := until - time.monotonic()) > 0:
            try:
                await asyncio.wait({running}, timeout=left)
            except asyncio.CancelledError as error:
                again = error
    if again is not None:
        raise again


def _swallow_exception(ended: asyncio.Future[Result]) -> None:
    """Retrieves the exception of a stopped thread: asyncio would log an unretrieved one."""
    if not ended.cancelled():
        ended.exception()


def _audit_reason(error: ToolyardError) -> str:
    """Returns the part of an error that goes into the log. Later sentences may quote the file; the log must not."""
    if error.kind == "security":
        return error.message
    first = error.message.partition("\n")[0]
    sentence, more, _ = first.partition(". ")
    return f"{sentence}." if more else first


async def _request_approval(call: Call, question: ApprovalRequired) -> None:
    if call.ask is deny_without_asking:
        raise SecurityError(
            f"{question.decision.reason} No one can approve it here, so it is refused.",
            hint="Do something else, or tell the user which permission is missing.",
        )
    if not await call.ask(question.action, question.decision):
        raise SecurityError(
            f"{question.decision.reason} The answer was no.",
            hint="Do not try again; ask the user what to do instead.",
        )


@dataclass(frozen=True, slots=True)
class _Ending:
    outcome: CallOutcome = CallOutcome.OK
    code: int = 0
    reason: str = ""
    caller_left: bool = False


def _audit_failure(ctx: CallContext, ending: _Ending, fault: ToolyardError) -> SystemFault:
    name = ctx.call.tool[:_NAME_CHARS]
    if ending.outcome is CallOutcome.OK:
        return SystemFault(f"{name} was carried out, but could not be recorded. {fault.message}", hint=fault.hint)
    what = "did not succeed and could not be recorded" if ctx.started else "was not run"
    return SystemFault(f"{name} {what}. {fault.message}", hint=fault.hint, retryable=not ctx.started)


def _audit_event(call: Call, ctx: CallContext, ending: _Ending, milliseconds: float) -> Event:
    verdict = ctx.permissions.strictest_decision()
    action, decision = verdict if verdict is not None else (None, None)
    return Event(
        call=call.id,
        surface=call.surface,
        agent=call.agent,
        session=call.session,
        tool=call.tool[:MAX_TARGET_CHARS],
        kind=action.kind.value if action else "",
        target=_audit_target(action),
        decision=decision.effect.value if decision else "",
        reason=_with_notes(ending.reason or (decision.reason if decision else ""), ctx)[:MAX_TARGET_CHARS],
        outcome=ending.outcome,
        code=ending.code,
        milliseconds=round(milliseconds, 3),
    )


def _with_notes(reason: str, ctx: CallContext) -> str:
    return " ".join((reason, *ctx.notes.for_audit)).strip()


def _audit_target(action: Action | None) -> str:
    if action is None:
        return ""
    return (action.real_path or action.path or action.command or _first_line(action.code))[:MAX_TARGET_CHARS]


def _first_line(code: str | None) -> str:
    return (code or "").strip().partition("\n")[0]
