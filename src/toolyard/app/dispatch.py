"""Dispatch: validate, decide, ask, run under a deadline, record exactly one event, answer.

The tool's function runs in a worker thread, so that a slow disk holds up its own call and nobody else's. A cancelled
call tells its thread to stop and waits for it, so that the event says what really happened.
"""

from __future__ import annotations

import asyncio
import difflib
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from toolyard.app.gate import Gate, NeedsAnswer, Resources
from toolyard.app.tool import Tool
from toolyard.core.actions import Action
from toolyard.core.calls import Call, Result
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.events import TARGET_CHARS, Event, Outcome
from toolyard.storage.audit_log import AuditLog

_THREADS = 16
_STOP_SECONDS = 5.0
_PROGRESS_SECONDS = 1.0
_MOST_QUESTIONS = 8  # a call that touches more than this many things that need an answer is refused
_OUTCOMES = {"security": Outcome.DENIED, "validation": Outcome.INVALID}


class AnswerPending(Exception):  # noqa: N818 - not an error: the answer comes with the next request
    """Raised by an Asker that can only put the question and must end the call until the answer arrives."""


class Dispatch:
    """Runs calls for one workspace. Owns its threads until `close()`; the log and the resources are its caller's."""

    def __init__(
        self, tools: Mapping[str, Tool[Any]], hidden: Mapping[str, Tool[Any]], resources: Resources, audit: AuditLog
    ) -> None:
        """`tools` are shown to clients; `hidden` serve surfaces that offer the same in another form."""
        self.tools = tools
        self._hidden = hidden
        self._resources = resources
        self._audit = audit
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="toolyard-call")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, call: Call) -> Result:
        started = time.perf_counter()
        gate = Gate(self._resources, call)
        ending = _Ending()
        try:
            return await self._run(call, gate)
        except AnswerPending:
            ending.outcome = Outcome.ASKED
            raise
        except asyncio.CancelledError:
            ending.outcome = Outcome.OK if gate.completed else Outcome.CANCELLED
            raise
        except ToolyardError as error:
            ending = _Ending(_OUTCOMES.get(error.kind, Outcome.FAILED), error.code, error.message)
            raise
        except Exception as error:  # the outermost edge: a fault of ours must not end the server
            ending = _Ending(Outcome.FAILED, SystemFault.code, f"{type(error).__name__}: {error}")
            raise SystemFault(
                f"{call.tool} failed inside Toolyard ({type(error).__name__}).",
                hint="This is a bug in Toolyard; please report it with the audit line of this call.",
            ) from error
        finally:
            elapsed = (time.perf_counter() - started) * 1000
            self._audit.append(_event(call, gate, ending, elapsed))

    async def _run(self, call: Call, gate: Gate) -> Result:
        tool = self._tool(call.tool)
        arguments = tool.check(call.arguments)
        gate.deadline = time.monotonic() + self._resources.limits.call_seconds
        for _ in range(_MOST_QUESTIONS):
            try:
                return await self._in_thread(tool, arguments, gate)
            except NeedsAnswer as question:
                await _ask(call, question)
                gate.approved |= {question.action}
                gate.deadline = time.monotonic() + self._resources.limits.call_seconds
        raise SecurityError("The call touches too many things that need an answer.", hint="Do less in one call.")

    async def _in_thread(self, tool: Tool[Any], arguments: Any, gate: Gate) -> Result:
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, _work, tool, arguments, gate)
        seconds = self._resources.limits.call_seconds
        try:
            await _finished(running, seconds, tool.name, gate.call)
        except asyncio.CancelledError:
            await _stopped(running, gate.cancelled)
            raise
        if not running.done():
            await _stopped(running, gate.cancelled)
            raise ToolError(
                f"{tool.name} took longer than {seconds:g} seconds.", hint="Ask for less.", retryable=True
            )
        return running.result()

    def _tool(self, name: str) -> Tool[Any]:
        tool = self.tools.get(name) or self._hidden.get(name)
        if tool is None:
            close = difflib.get_close_matches(name, self.tools, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"The tools are {', '.join(self.tools)}."
            raise ValidationError.of("name", f"there is no tool called {name[:100]!r}", hint=hint)
        return tool


def _work(tool: Tool[Any], arguments: Any, gate: Gate) -> Result:
    result = tool.run(arguments, gate)
    gate.completed = True
    return result


async def _finished(running: asyncio.Future[Result], seconds: float, name: str, call: Call) -> None:
    """Wait for the thread or the deadline, telling the caller once a second that work goes on."""
    started = time.monotonic()
    while True:
        left = seconds - (time.monotonic() - started)
        done, _ = await asyncio.wait({running}, timeout=min(_PROGRESS_SECONDS, max(left, 0)))
        if done or left <= 0:
            return
        elapsed = time.monotonic() - started
        await call.progress(elapsed, seconds, f"{name} has been running for {elapsed:.0f} s")


async def _stopped(running: asyncio.Future[Result], cancelled: threading.Event) -> None:
    cancelled.set()
    await asyncio.wait({running}, timeout=_STOP_SECONDS)


async def _ask(call: Call, question: NeedsAnswer) -> None:
    if not await call.ask(question.action, question.decision):
        raise SecurityError(
            f"{question.decision.reason} The answer was no.",
            hint="Do not try again; ask the user what to do instead.",
        )


@dataclass(slots=True)
class _Ending:
    outcome: Outcome = Outcome.OK
    code: int = 0
    reason: str = ""


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
        reason=(ending.reason or (decision.reason if decision else ""))[:TARGET_CHARS],
        outcome=ending.outcome,
        code=ending.code,
        milliseconds=round(milliseconds, 3),
    )


def _target(action: Action | None) -> str:
    if action is None:
        return ""
    return (action.real_path or action.path or action.command or "")[:TARGET_CHARS]
