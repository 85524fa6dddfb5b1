"""Handles skill requests of sandboxed code, through the broker: save, promote, list.

`SkillRequests` is called on the broker's loop and owns a few threads until `close()`. Saving a skill may run its
example, in the sandbox in which the caller waits. It therefore has its own threads (so that a waiting example does
not block searches), their number is limited, a free slot is awaited for a limited time, and each example has a
deadline: examples that save skills themselves terminate at any depth. If the caller leaves, its example is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolyard.codemode.broker import BrokerRequest
from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.agent_folder_names import COMMUNITY
from toolyard.core.calls import ApprovalCallback
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.ids import new_id
from toolyard.policy.policy import Policy
from toolyard.skills.library import SkillLibrary
from toolyard.storage.audit_log import EventLog
from toolyard.workspace.layout import skills_folder

if TYPE_CHECKING:
    from toolyard.skills import SkillChecks

SAVE, PROMOTE = "save_skill", "promote_skill"
_MAX_CONCURRENT = 4
_TURN_SECONDS = 20.0
_MODULE = "__init__.py"
_OUTCOMES = {"security": CallOutcome.DENIED, "validation": CallOutcome.INVALID}

MakeChecks = Callable[[threading.Event], "SkillChecks"]


@dataclass(frozen=True, slots=True)
class _SkillRequest:
    tool: str
    agent: str
    owner: str
    """The owner of the changed skill."""
    name: str


@dataclass(slots=True)
class _AuditRecord:
    """One request, for the audit log."""

    request: _SkillRequest
    path: str
    surface: str
    decision: Decision | None = None
    started: float = field(default_factory=time.perf_counter)
    outcome: CallOutcome = CallOutcome.FAILED
    code: int = SystemFault.code
    note: str = ""


class SkillRequests(Closeable):
    """Saves, promotes and lists skills for sandboxed code."""

    def __init__(
        self, library: SkillLibrary, policy: Policy, audit: EventLog, surface: str, checks: MakeChecks | None
    ) -> None:
        """`checks` creates the checks of one request, which stop when its event is set. None accepts any valid
        Python.
        """
        self._library, self._policy, self._audit, self._surface = library, policy, audit, surface
        self._make_checks = checks
        self._threads = ThreadPoolExecutor(_MAX_CONCURRENT, thread_name_prefix="toolyard-skill")
        self._turns = asyncio.Semaphore(_MAX_CONCURRENT)
        self._stop_events: set[threading.Event] = set()

    def close(self) -> None:
        for stop in tuple(self._stop_events):
            stop.set()
        self._threads.shutdown(cancel_futures=True)

    async def save(self, request: BrokerRequest, ask: ApprovalCallback) -> str:
        """Saves a skill. Returns its folder, relative to the folder that contains `skills`."""
        name = await self._requested_name(SAVE, request)

        def work(record: _AuditRecord, checks: SkillChecks | None) -> str:
            from toolyard.skills import Skill, save  # most sessions save none

            code, description = (_text_argument(request, key) for key in ("code", "description"))
            path = save(self._library.root, request.agent, Skill(name, code, description), checks)
            record.note = self._version_note(request.agent, name)
            return path

        return await self._run_request(_SkillRequest(SAVE, request.agent, request.agent, name), ask, work)

    async def promote(self, request: BrokerRequest, ask: ApprovalCallback) -> str:
        """Copies a skill to the community. Returns its folder."""
        name = await self._requested_name(PROMOTE, request)
        replace = request.arguments.get("replace") is True

        def work(record: _AuditRecord, checks: SkillChecks | None) -> str:
            from toolyard.skills import promote

            path = promote(self._library.root, request.agent, name, replace=replace, checks=checks)
            record.note = self._version_note(COMMUNITY, name)
            return path

        return await self._run_request(_SkillRequest(PROMOTE, request.agent, COMMUNITY, name), ask, work)

    async def _requested_name(self, tool: str, request: BrokerRequest) -> str:
        """Returns the name of the skill. Invalid names are refused before they become part of a path."""
        from toolyard.skills.skill import check_name

        try:
            name = _text_argument(request, "name")
            check_name(name)
        except ValidationError as error:
            target = str(request.arguments.get("name"))[:MAX_TARGET_CHARS]
            record = _AuditRecord(_SkillRequest(tool, request.agent, "", ""), target, self._surface)
            record.outcome, record.code, record.note = CallOutcome.INVALID, error.code, error.message
            await asyncio.to_thread(self._audit.append, _audit_event(record))
            raise
        return name

    async def list_skills(self) -> list[dict[str, str]]:
        """Returns the skills that the agent may see."""
        return await asyncio.to_thread(self._visible_skills)

    def _visible_skills(self) -> list[dict[str, str]]:
        visible, shelf = self._policy.is_visible, self._library
        return [
            {
                "name": entry.name,
                "owner": entry.owner,
                "path": entry.path,
                "description": entry.description,
                "module": entry.module,
            }
            for entry in shelf.entries()
            if not entry.fault and visible(shelf.path_of(entry))
        ]

    async def _run_request(
        self,
        skill_request: _SkillRequest,
        ask: ApprovalCallback,
        work: Callable[[_AuditRecord, SkillChecks | None], str],
    ) -> str:
        path = os.path.join(self._library.root.path, skills_folder(skill_request.owner), skill_request.name, _MODULE)
        action = Action(Kind.WRITE, skill_request.tool, path, path, agent=skill_request.agent)
        decision = self._policy.decide(action)
        record = _AuditRecord(skill_request, path, self._surface, decision)
        is_allowed = decision.effect is Effect.ALLOW or (
            decision.effect is Effect.ASK and await ask(action, decision)
        )
        await self._acquire_turn(record)
        stop = threading.Event()

        def run_recorded() -> str:
            with self._audit_request(record):
                if not is_allowed:
                    raise SecurityError.from_refusal(decision.reason)
                return work(record, self._make_checks(stop) if self._make_checks is not None else None)

        return await self._run_in_thread(run_recorded, stop)

    async def _acquire_turn(self, record: _AuditRecord) -> None:
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            record.note = "No slot became free in time."
            await asyncio.to_thread(self._audit.append, _audit_event(record))
            raise ToolError(
                f"{_MAX_CONCURRENT} other skills are being saved or checked.",
                hint="Try again in a moment.",
                retryable=True,
            ) from None

    async def _run_in_thread(self, work: Callable[[], str], stop: threading.Event) -> str:
        """Runs the work in a thread. The slot is released when the work ends, even after the caller has left."""
        loop = asyncio.get_running_loop()

        def release_turn(_: Future[str]) -> None:
            self._stop_events.discard(stop)
            with contextlib.suppress(RuntimeError):  # the loop may be closed by then
                loop.call_soon_threadsafe(self._turns.release)

        self._stop_events.add(stop)
        try:
            under_way = self._threads.submit(work)
        except RuntimeError:
            self._stop_events.discard(stop)
            self._turns.release()
            raise SystemFault("The workspace is closed.", hint="Open it again.") from None
        under_way.add_done_callback(release_turn)
        try:
            return await asyncio.wrap_future(under_way)
        finally:
            stop.set()  # if the caller left early, the work has to stop

    @contextlib.contextmanager
    def _audit_request(self, record: _AuditRecord) -> Generator[None]:
        try:
            yield
            record.outcome, record.code = CallOutcome.OK, 0
        except ToolyardError as error:
            record.outcome, record.code = _OUTCOMES.get(error.kind, CallOutcome.FAILED), error.code
            raise
        finally:
            self._audit.append(_audit_event(record))

    def _version_note(self, owner: str, name: str) -> str:
        """Returns the version number and hash of the saved skill, for the log, which no agent can write."""
        from toolyard.skills import versions

        with contextlib.suppress(ToolyardError):
            known = versions(self._library.root, owner, name)
            if known:
                return f"Version {known[-1].number}, {known[-1].hash}."
        return ""


def _text_argument(request: BrokerRequest, key: str) -> str:
    value = request.arguments.get(key)
    if not isinstance(value, str):
        raise ValidationError.of(key, "has to be text", hint="Give it as a string.")
    return value


def _audit_event(record: _AuditRecord) -> Event:
    decision = record.decision
    return Event(
        call=new_id(),
        surface=record.surface,
        agent=record.request.agent,
        session="",
        tool=record.request.tool,
        kind=Kind.WRITE.value,
        target=record.path[:MAX_TARGET_CHARS],
        decision=decision.effect.value if decision is not None else "",
        reason=f"{decision.reason if decision is not None else ''} {record.note}".strip()[:MAX_TARGET_CHARS],
        outcome=record.outcome,
        code=record.code,
        milliseconds=round((time.perf_counter() - record.started) * 1_000, 3),
    )
