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
from toolyard.core.calls import Asker
from toolyard.core.closeable import Closing
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.events import TARGET_CHARS, Event, Outcome
from toolyard.core.ids import new_id
from toolyard.policy.policy import Policy
from toolyard.skills.library import Shelf
from toolyard.storage.audit_recorder import EventLog
from toolyard.workspace.layout import skills_folder

if TYPE_CHECKING:
    from toolyard.skills import Checks

SAVE, PROMOTE = "save_skill", "promote_skill"
_AT_ONCE = 4
_TURN_SECONDS = 20.0
_MODULE = "__init__.py"
_OUTCOMES = {"security": Outcome.DENIED, "validation": Outcome.INVALID}

MakeChecks = Callable[[threading.Event], "Checks"]


@dataclass(frozen=True, slots=True)
class _Wish:
    tool: str
    agent: str
    owner: str
    """Whose skills are changed."""
    name: str


@dataclass(slots=True)
class _Judged:
    """One request as the log tells it."""

    wish: _Wish
    path: str
    surface: str
    decision: Decision | None = None
    started: float = field(default_factory=time.perf_counter)
    outcome: Outcome = Outcome.FAILED
    code: int = SystemFault.code
    note: str = ""


class SkillRequests(Closing):
    def __init__(
        self, shelf: Shelf, policy: Policy, audit: EventLog, surface: str, checks: MakeChecks | None
    ) -> None:
        """`checks` are those of one request, which stop when its event is set. None keeps whatever parses."""
        self._shelf, self._policy, self._audit, self._surface = shelf, policy, audit, surface
        self._checks = checks
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="toolyard-skill")
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._under_way: set[threading.Event] = set()

    def close(self) -> None:
        for stop in tuple(self._under_way):
            stop.set()
        self._threads.shutdown(cancel_futures=True)

    async def save(self, request: BrokerRequest, ask: Asker) -> str:
        """Its folder, relative to where `skills` lies."""
        name = await self._name_in(SAVE, request)

        def work(judged: _Judged, checks: Checks | None) -> str:
            from toolyard.skills import Skill, save  # most sessions keep none

            code, description = (_text(request, key) for key in ("code", "description"))
            path = save(self._shelf.root, request.agent, Skill(name, code, description), checks)
            judged.note = self._version(request.agent, name)
            return path

        return await self._kept(_Wish(SAVE, request.agent, request.agent, name), ask, work)

    async def promote(self, request: BrokerRequest, ask: Asker) -> str:
        name = await self._name_in(PROMOTE, request)
        replace = request.arguments.get("replace") is True

        def work(judged: _Judged, checks: Checks | None) -> str:
            from toolyard.skills import promote

            path = promote(self._shelf.root, request.agent, name, replace=replace, checks=checks)
            judged.note = self._version(COMMUNITY, name)
            return path

        return await self._kept(_Wish(PROMOTE, request.agent, COMMUNITY, name), ask, work)

    async def _name_in(self, tool: str, request: BrokerRequest) -> str:
        """The skill that is meant. What can be no name is refused before it is part of a path."""
        from toolyard.skills.skill import check_name

        try:
            name = _text(request, "name")
            check_name(name)
        except ValidationError as error:
            target = str(request.arguments.get("name"))[:TARGET_CHARS]
            judged = _Judged(_Wish(tool, request.agent, "", ""), target, self._surface)
            judged.outcome, judged.code, judged.note = Outcome.INVALID, error.code, error.message
            await asyncio.to_thread(self._audit.append, _event(judged))
            raise
        return name

    async def listed(self) -> list[dict[str, str]]:
        return await asyncio.to_thread(self._listed)

    def _listed(self) -> list[dict[str, str]]:
        visible, shelf = self._policy.visible, self._shelf
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

    async def _kept(self, wish: _Wish, ask: Asker, work: Callable[[_Judged, Checks | None], str]) -> str:
        path = os.path.join(self._shelf.root.path, skills_folder(wish.owner), wish.name, _MODULE)
        action = Action(Kind.WRITE, wish.tool, path, path, agent=wish.agent)
        decision = self._policy.decide(action)
        judged = _Judged(wish, path, self._surface, decision)
        is_allowed = decision.effect is Effect.ALLOW or (
            decision.effect is Effect.ASK and await ask(action, decision)
        )
        await self._turn(judged)
        stop = threading.Event()

        def recorded() -> str:
            with self._recorded(judged):
                if not is_allowed:
                    raise SecurityError.refused(decision.reason)
                return work(judged, self._checks(stop) if self._checks is not None else None)

        return await self._in_thread(recorded, stop)

    async def _turn(self, judged: _Judged) -> None:
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            judged.note = "There was no turn for it."
            await asyncio.to_thread(self._audit.append, _event(judged))
            raise ToolError(
                f"{_AT_ONCE} other skills are being kept or tried.", hint="Try again in a moment.", retryable=True
            ) from None

    async def _in_thread(self, work: Callable[[], str], stop: threading.Event) -> str:
        """The turn ends with the thread's work, which may be after the caller has left."""
        loop = asyncio.get_running_loop()

        def ended(_: Future[str]) -> None:
            self._under_way.discard(stop)
            with contextlib.suppress(RuntimeError):  # the loop may be closed by then
                loop.call_soon_threadsafe(self._turns.release)

        self._under_way.add(stop)
        try:
            under_way = self._threads.submit(work)
        except RuntimeError:
            self._under_way.discard(stop)
            self._turns.release()
            raise SystemFault("The workspace is closed.", hint="Open it again.") from None
        under_way.add_done_callback(ended)
        try:
            return await asyncio.wrap_future(under_way)
        finally:
            stop.set()  # in every other ending than its own: nobody waits for it

    @contextlib.contextmanager
    def _recorded(self, judged: _Judged) -> Generator[None]:
        try:
            yield
            judged.outcome, judged.code = Outcome.OK, 0
        except ToolyardError as error:
            judged.outcome, judged.code = _OUTCOMES.get(error.kind, Outcome.FAILED), error.code
            raise
        finally:
            self._audit.append(_event(judged))

    def _version(self, owner: str, name: str) -> str:
        """Which version it became, and its hash: the log is where no agent can write."""
        from toolyard.skills import versions

        with contextlib.suppress(ToolyardError):
            known = versions(self._shelf.root, owner, name)
            if known:
                return f"Version {known[-1].number}, {known[-1].hash}."
        return ""


def _text(request: BrokerRequest, key: str) -> str:
    value = request.arguments.get(key)
    if not isinstance(value, str):
        raise ValidationError.of(key, "has to be text", hint="Give it as a string.")
    return value


def _event(judged: _Judged) -> Event:
    decision = judged.decision
    return Event(
        call=new_id(),
        surface=judged.surface,
        agent=judged.wish.agent,
        session="",
        tool=judged.wish.tool,
        kind=Kind.WRITE.value,
        target=judged.path[:TARGET_CHARS],
        decision=decision.effect.value if decision is not None else "",
        reason=f"{decision.reason if decision is not None else ''} {judged.note}".strip()[:TARGET_CHARS],
        outcome=judged.outcome,
        code=judged.code,
        milliseconds=round((time.perf_counter() - judged.started) * 1_000, 3),
    )
