"""What code in the sandbox asks about skills, through the broker: keep one, promote one, list them.

Contract: `SkillRequests` is called on the broker's loop and owns a few threads until `close()`. Keeping a skill may
mean running its example, in the sandbox in which the caller waits. So the threads are its own (whoever waits for an
example holds up no search), their number is bounded, a turn is waited for only so long, and each example has a
deadline: examples that keep skills themselves come to an end, however deep. A caller that leaves stops its example.
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
from toolyard.storage.audit_recorder import EventLog
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
    """Whose skills are changed."""
    name: str


@dataclass(slots=True)
class _AuditRecord:
    """One request as the log tells it."""

    request: _SkillRequest
    path: str
    surface: str
    decision: Decision | None = None
    started: float = field(default_factory=time.perf_counter)
    outcome: CallOutcome = CallOutcome.FAILED
    code: int = SystemFault.code
    note: str = ""


class SkillRequests(Closeable):
    def __init__(
        self, library: SkillLibrary, policy: Policy, audit: EventLog, surface: str, checks: MakeChecks | None
    ) -> None:
        """`checks` are those of one request, which stop when its event is set. None keeps whatever parses."""
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
        """Its folder, relative to where `skills` lies."""
        name = await self._requested_name(SAVE, request)

        def work(judged: _AuditRecord, checks: SkillChecks | None) -> str:
            from toolyard.skills import Skill, save  # most sessions keep none

            code, description = (_text_argument(request, key) for key in ("code", "description"))
            path = save(self._library.root, request.agent, Skill(name, code, description), checks)
            judged.note = self._version_note(request.agent, name)
            return path

        return await self._run_request(_SkillRequest(SAVE, request.agent, request.agent, name), ask, work)

    async def promote(self, request: BrokerRequest, ask: ApprovalCallback) -> str:
        name = await self._requested_name(PROMOTE, request)
        replace = request.arguments.get("replace") is True

        def work(judged: _AuditRecord, checks: SkillChecks | None) -> str:
            from toolyard.skills import promote

            path = promote(self._library.root, request.agent, name, replace=replace, checks=checks)
            judged.note = self._version_note(COMMUNITY, name)
            return path

        return await self._run_request(_SkillRequest(PROMOTE, request.agent, COMMUNITY, name), ask, work)

    async def _requested_name(self, tool: str, request: BrokerRequest) -> str:
        """The skill that is meant. What can be no name is refused before it is part of a path."""
        from toolyard.skills.skill import check_name

        try:
            name = _text_argument(request, "name")
            check_name(name)
        except ValidationError as error:
            target = str(request.arguments.get("name"))[:MAX_TARGET_CHARS]
            judged = _AuditRecord(_SkillRequest(tool, request.agent, "", ""), target, self._surface)
            judged.outcome, judged.code, judged.note = CallOutcome.INVALID, error.code, error.message
            await asyncio.to_thread(self._audit.append, _audit_event(judged))
            raise
        return name

    async def list_skills(self) -> list[dict[str, str]]:
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
        judged = _AuditRecord(skill_request, path, self._surface, decision)
        is_allowed = decision.effect is Effect.ALLOW or (
            decision.effect is Effect.ASK and await ask(action, decision)
        )
        await self._acquire_turn(judged)
        stop = threading.Event()

        def run_recorded() -> str:
            with self._audit_request(judged):
                if not is_allowed:
                    raise SecurityError.from_refusal(decision.reason)
                return work(judged, self._make_checks(stop) if self._make_checks is not None else None)

        return await self._run_in_thread(run_recorded, stop)

    async def _acquire_turn(self, judged: _AuditRecord) -> None:
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            judged.note = "There was no turn for it."
            await asyncio.to_thread(self._audit.append, _audit_event(judged))
            raise ToolError(
                f"{_MAX_CONCURRENT} other skills are being kept or tried.",
                hint="Try again in a moment.",
                retryable=True,
            ) from None

    async def _run_in_thread(self, work: Callable[[], str], stop: threading.Event) -> str:
        """The turn ends with the thread's work, which may be after the caller has left."""
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
            stop.set()  # in every other ending than its own: nobody waits for it

    @contextlib.contextmanager
    def _audit_request(self, judged: _AuditRecord) -> Generator[None]:
        try:
            yield
            judged.outcome, judged.code = CallOutcome.OK, 0
        except ToolyardError as error:
            judged.outcome, judged.code = _OUTCOMES.get(error.kind, CallOutcome.FAILED), error.code
            raise
        finally:
            self._audit.append(_audit_event(judged))

    def _version_note(self, owner: str, name: str) -> str:
        """Which version it became, and its hash: the log is where no agent can write."""
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


def _audit_event(judged: _AuditRecord) -> Event:
    decision = judged.decision
    return Event(
        call=new_id(),
        surface=judged.surface,
        agent=judged.request.agent,
        session="",
        tool=judged.request.tool,
        kind=Kind.WRITE.value,
        target=judged.path[:MAX_TARGET_CHARS],
        decision=decision.effect.value if decision is not None else "",
        reason=f"{decision.reason if decision is not None else ''} {judged.note}".strip()[:MAX_TARGET_CHARS],
        outcome=judged.outcome,
        code=judged.code,
        milliseconds=round((time.perf_counter() - judged.started) * 1_000, 3),
    )
