"""Dispatch: validate, decide, ask, run under a deadline, record exactly one event, answer.

The tool's function runs in a worker thread, so that a slow disk holds up its own call and nobody else's. A cancelled
or overdue call tells its thread to stop and waits for it, so that the event says what really happened. When the event
cannot be written the caller gets the fault in place of the result, and further calls are refused before they run
until it is.
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

from toolyard.config.suggestions import closest
from toolyard.core.actions import Action
from toolyard.core.calls import AnswerPending, Call, Result, Text, ask_nobody
from toolyard.core.errors import SecurityError, SystemFault, ToolyardError, UnknownToolError
from toolyard.core.events import TARGET_CHARS, Event, Outcome
from toolyard.core.fd_exhaustion import no_descriptors
from toolyard.core.limits import KIB
from toolyard.dispatch.call_context import Gate, NeedsAnswer, NotNow, Resources
from toolyard.dispatch.call_queue import Lines, waited
from toolyard.dispatch.tool import Tool
from toolyard.storage.audit_recorder import EventLog, Recorder
from toolyard.workspace.file_tool_detector import OperationOutcome, Origin

_THREADS = 16
_RUNNING_THREADS = 64  # for tools that run code, so that thirty commands hold up no file tool
_SLACK_SECONDS = 10.0  # a run keeps its own clock; dispatch steps in only when that fails
_STOP_SECONDS = 5.0
_MOST_QUESTIONS = 8  # a call that touches more than this many things that need an answer is refused
_SHOWN_NAME = 100
_SHOWN_TOOLS = 20
_QUICK_CHARS = 256 * KIB  # of arguments
_OUTCOMES = {"security": Outcome.DENIED, "validation": Outcome.INVALID}


class Dispatch:
    """Runs calls for one workspace. Owns its threads until `close()`; the log and the resources are its caller's.

    `close()` stops what still runs and waits for it: the handles it works with are closed next.
    """

    def __init__(
        self, tools: Mapping[str, Tool[Any]], hidden: Mapping[str, Tool[Any]], resources: Resources, audit: EventLog
    ) -> None:
        """`tools` are shown to clients; `hidden` serve surfaces that offer the same in another form."""
        self.tools = tools
        self._hidden = hidden
        self._resources = resources
        self._recorder = Recorder(audit)
        self._under_way: set[Gate] = set()
        self._lines = Lines()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="toolyard-call")
        self._running_threads = ThreadPoolExecutor(_RUNNING_THREADS, thread_name_prefix="toolyard-run")

    def close(self) -> None:
        for gate in tuple(self._under_way):
            gate.cancelled.set()
        self._threads.shutdown(cancel_futures=True)
        self._running_threads.shutdown(cancel_futures=True)
        self._recorder.catch_up()

    async def __call__(self, call: Call) -> Result:
        with self._recorded(call) as gate:
            return await self._run(call, gate)

    def now(self, call: Call) -> Result | None:
        """Run a quick call in the calling thread. None, and nothing was done, when it has to be awaited.

        For a surface that serves one client on the event loop's thread: while it runs, nothing else does.
        """
        tool = self.tools.get(call.tool)
        if tool is None or tool.is_quick is None or self._under_way or not self._resources.mounts.are_local:
            return None
        try:
            with self._recorded(call) as gate:
                arguments = tool.check(call.arguments)
                if not tool.is_quick(arguments) or _size(call.arguments) > _QUICK_CHARS:
                    raise NotNow
                gate.started, gate.patient = True, False
                return _work(tool, arguments, gate)
        except (NotNow, NeedsAnswer):
            return None

    @contextlib.contextmanager
    def _recorded(self, call: Call) -> Generator[Gate]:
        """Around each call: one event in every ending, unless it turns out that it has to be awaited."""
        started = time.perf_counter()
        gate = Gate(self._resources, call)
        ending: _Ending | None = _Ending(Outcome.FAILED, SystemFault.code, "The call was broken off.")
        try:
            self._recorder.catch_up()
            yield gate
            ending = _Ending()
        except (NotNow, NeedsAnswer):
            ending = None
            raise
        except AnswerPending:
            ending = _Ending(Outcome.ASKED)
            raise
        except asyncio.CancelledError:
            ending = _Ending(Outcome.OK if gate.completed else Outcome.CANCELLED, caller_left=True)
            raise
        except ToolyardError as error:
            ending = _Ending(_OUTCOMES.get(error.kind, Outcome.FAILED), error.code, _reason(error))
            raise
        except Exception as error:  # the outermost edge: a fault of ours must not end the server
            ending = _Ending(Outcome.FAILED, SystemFault.code, f"{type(error).__name__}: {error}")
            if (fault := no_descriptors(error)) is not None:
                raise fault from error
            raise SystemFault(
                f"{call.tool} failed inside Toolyard ({type(error).__name__}).",
                hint="This is a bug in Toolyard; please report it with the audit line of this call.",
            ) from error
        finally:
            if ending is not None:
                if ending.outcome is Outcome.DENIED:  # the answer to a question was no
                    _notify(gate, call.tool, OperationOutcome.DENIED)
                elapsed = (time.perf_counter() - started) * 1000
                fault = self._recorder.record(_event(call, gate, ending, elapsed), ran=gate.started)
                if fault is not None and not ending.caller_left:
                    raise _unrecorded(gate, ending, fault) from fault

    async def _run(self, call: Call, gate: Gate) -> Result:
        tool = self._tool(call.tool, hidden=call.hidden)
        arguments = tool.check(call.arguments)
        gate.seconds = self._seconds(tool, arguments)
        gate.loop = asyncio.get_running_loop()
        line = tool.line(arguments) if tool.line is not None else None
        if line is None:
            return await self._answered(call, tool, arguments, gate)
        async with self._lines.turn(line, tool.name, gate):
            return await self._answered(call, tool, arguments, gate)

    async def _answered(self, call: Call, tool: Tool[Any], arguments: Any, gate: Gate) -> Result:
        """What the tool gives, once everything that has to be asked about it is answered."""
        gate.deadline = time.monotonic() + gate.seconds
        for asked in range(_MOST_QUESTIONS + 1):
            try:
                return await self._in_thread(tool, arguments, gate)
            except NeedsAnswer as question:
                if asked == _MOST_QUESTIONS:
                    break
                await _ask(call, question)
                gate.approved |= {question.action}
                gate.deadline = time.monotonic() + gate.seconds
        raise SecurityError("The call touches too many things that need an answer.", hint="Do less in one call.")

    async def _in_thread(self, tool: Tool[Any], arguments: Any, gate: Gate) -> Result:
        gate.started = True
        self._under_way.add(gate)
        threads = self._threads if tool.longest is None else self._running_threads
        work = threads.submit(_work, tool, arguments, gate)
        work.add_done_callback(lambda _: self._under_way.discard(gate))
        running = asyncio.wrap_future(work)
        overdue = False
        try:
            overdue = not await waited(running, tool.name, gate)
        finally:
            if not running.done():
                await _stopped(running, gate.cancelled)
        if overdue and not gate.completed:
            raise gate.overdue()
        return running.result()

    def _seconds(self, tool: Tool[Any], arguments: Any) -> float:
        if tool.longest is None:
            return self._resources.limits.call_seconds
        return tool.longest(arguments, self._resources.sandboxes.limits) + _SLACK_SECONDS

    def _tool(self, name: str, *, hidden: bool) -> Tool[Any]:
        tool = (self._hidden if hidden else self.tools).get(name)
        if tool is None:
            meant = closest(name, self.tools)
            hint = f"Did you mean {meant}?" if meant else f"The tools are {_named(self.tools)}."
            raise UnknownToolError.of("name", f"there is no tool called {name[:_SHOWN_NAME]!r}", hint=hint)
        return tool


def _named(tools: Iterable[str]) -> str:
    names = list(tools)
    more = f" and {len(names) - _SHOWN_TOOLS} more" if len(names) > _SHOWN_TOOLS else ""
    return f"{', '.join(names[:_SHOWN_TOOLS])}{more}"


def _size(arguments: Mapping[str, Any]) -> int:
    return sum(len(value) for value in arguments.values() if isinstance(value, str))


def _work(tool: Tool[Any], arguments: Any, gate: Gate) -> Result:
    gate.check_time()  # it may have waited for a thread longer than its caller did
    outcome: OperationOutcome | None = OperationOutcome.FAILED
    try:
        result = tool.run(arguments, gate)
        outcome = OperationOutcome.FAILED if result.failed else OperationOutcome.OK
    except SecurityError:
        outcome = OperationOutcome.DENIED
        raise
    except (NeedsAnswer, NotNow):
        outcome = None  # it begins again, or is refused by whoever is asked
        raise
    finally:
        _tell_of_changes(tool, gate, outcome)
    if not gate.call.hidden:
        gate.lines += gate.sandboxes.shells.notices(gate.call.session)
        gate.lines += gate.resources.sharing.news.lines() if gate.resources.sharing is not None else []
    # What only reads and was told to stop has left nothing behind, and may bring back half of what was asked.
    gate.completed = not (tool.read_only and gate.cancelled.is_set())
    return replace(result, parts=(*result.parts, Text("\n".join(gate.lines)))) if gate.lines else result


def _tell_of_changes(tool: Tool[Any], gate: Gate, outcome: OperationOutcome | None) -> None:
    """A snapshot follows what may have changed files, however it ended, and listeners are told."""
    snapshots = gate.resources.snapshots
    if not gate.runs_on:
        gate.end_changes()
    is_upstream = tool.kind == "call"  # those are told of where they are called
    if gate.changes and snapshots is not None:
        if not is_upstream:
            gate.changed()
        for keeper in gate.touched or (snapshots,):
            gate.lines += keeper.notices.pop_all()
    if outcome is not None and not is_upstream:
        _notify(gate, tool.name, outcome)


def _notify(gate: Gate, tool: str, outcome: OperationOutcome) -> None:
    detector, snapshots = gate.resources.detector, gate.resources.snapshots
    if detector is None or gate.is_notified:
        return
    gate.is_notified = True
    paths = (path for action, _ in gate.judged if (path := action.real_path or action.path))
    newest = snapshots.newest if snapshots is not None else ""
    call = gate.call
    origin = Origin(call.agent, call.session, call.id, call.surface)
    detector.notify_filesystem_operation(
        *(tool, call.arguments), outcome=outcome, paths=paths, snapshot=newest, origin=origin
    )


async def _stopped(running: asyncio.Future[Result], cancelled: threading.Event) -> None:
    """Tell the thread to stop and wait for it, for a bounded time and however often we are cancelled meanwhile."""
    cancelled.set()
    running.add_done_callback(_looked_at)
    until = time.monotonic() + _STOP_SECONDS
    again: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):  # the SDK's scopes cancel at every turn of the loop until the task ends
        while not running.done() and (left := until - time.monotonic()) > 0:
            try:
                await asyncio.wait({running}, timeout=left)
            except asyncio.CancelledError as error:
                again = error
    if again is not None:
        raise again


def _looked_at(ended: asyncio.Future[Result]) -> None:
    """What a stopped thread raises is nobody's business; asyncio would print it."""
    if not ended.cancelled():
        ended.exception()


def _reason(error: ToolyardError) -> str:
    """What the log keeps of an error. A tool's message may quote the file after its first sentence; the log never."""
    if error.kind == "security":
        return error.message
    first = error.message.partition("\n")[0]
    sentence, more, _ = first.partition(". ")
    return f"{sentence}." if more else first


async def _ask(call: Call, question: NeedsAnswer) -> None:
    if call.ask is ask_nobody:
        raise SecurityError(
            f"{question.decision.reason} Nobody can be asked here, so it is refused.",
            hint="Do something else, or tell the user which permission is missing.",
        )
    if not await call.ask(question.action, question.decision):
        raise SecurityError(
            f"{question.decision.reason} The answer was no.",
            hint="Do not try again; ask the user what to do instead.",
        )


@dataclass(frozen=True, slots=True)
class _Ending:
    outcome: Outcome = Outcome.OK
    code: int = 0
    reason: str = ""
    caller_left: bool = False


def _unrecorded(gate: Gate, ending: _Ending, fault: ToolyardError) -> SystemFault:
    name = gate.call.tool[:_SHOWN_NAME]
    if ending.outcome is Outcome.OK:
        return SystemFault(f"{name} was carried out, but could not be recorded. {fault.message}", hint=fault.hint)
    what = "did not succeed and could not be recorded" if gate.started else "was not run"
    return SystemFault(f"{name} {what}. {fault.message}", hint=fault.hint, retryable=not gate.started)


def _event(call: Call, gate: Gate, ending: _Ending, milliseconds: float) -> Event:
    verdict = gate.verdict()
    action, decision = verdict if verdict is not None else (None, None)
    return Event(
        call=call.id,
        surface=call.surface,
        agent=call.agent,
        session=call.session,
        tool=call.tool[:TARGET_CHARS],
        kind=action.kind.value if action else "",
        target=_target(action),
        decision=decision.effect.value if decision else "",
        reason=_remarked(ending.reason or (decision.reason if decision else ""), gate)[:TARGET_CHARS],
        outcome=ending.outcome,
        code=ending.code,
        milliseconds=round(milliseconds, 3),
    )


def _remarked(reason: str, gate: Gate) -> str:
    return " ".join((reason, *gate.remarks)).strip()


def _target(action: Action | None) -> str:
    if action is None:
        return ""
    return (action.real_path or action.path or action.command or _first_line(action.code))[:TARGET_CHARS]


def _first_line(code: str | None) -> str:
    return (code or "").strip().partition("\n")[0]
