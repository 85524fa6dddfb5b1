"""The one way a tool of somebody else's is called: authorised, decided, recorded, whoever calls.

Calls from sandboxed code, from the command line and from clients that have the tool in their context all come here.
It runs on the loop that the connections live on, so that a call crosses no thread on its way. Exactly one event is
recorded for each call, in every ending; while the log cannot be written, nothing is called.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolyard.codemode.catalog import CatalogBusy, KnownTool, ToolChange
from toolyard.codemode.rate_limits import Allowances
from toolyard.codemode.result_schema_inference import infer
from toolyard.config.authorization import Authorization
from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.calls import AnswerPending, Asker
from toolyard.core.eager_call import as_task
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.events import TARGET_CHARS, Event, Outcome
from toolyard.core.ids import new_id
from toolyard.core.upstream import Json, Progress, ServerListing, ToolAnswer, ToolSchema
from toolyard.policy.policy import Policy
from toolyard.storage.audit_recorder import EventLog, Recorder

_OUTCOMES = {"security": Outcome.DENIED, "validation": Outcome.INVALID}
_SHOWN_NAMES = 8
_GUESSED_CHARS = 100
"""Of a wrong name: comparing takes the longer the longer it is."""
_BUSY_SECONDS = 10.0
_BUSY_PAUSE = 0.05
_LOOK_SECONDS = 0.02
"""How long it may take until a sync of another process is noticed: looking costs a tenth of a call."""


class Callee(Protocol):
    """Where calls go in the end: the pool of connections, or the custom tools."""

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float | None = None,  # noqa: ASYNC109 - part of the call: the server is told, too
        progress: Progress | None = None,
    ) -> ToolAnswer: ...

    def goes_straight(self, server: str) -> bool:
        """Whether a call of now needs no task of its own."""
        ...

    async def listing(self, server: str) -> ServerListing:
        """What a server has now, the same object until that may have changed. Starts it where it does not run."""
        ...


class Knowledge(Protocol):
    """What is known of the tools: the catalog, or the custom tools."""

    def tool(self, server: str, name: str) -> KnownTool | None: ...

    def tool_names(self, server: str) -> tuple[str, ...]: ...

    def version(self) -> int: ...

    def record(
        self, listing: ServerListing, evidence: str | None, *, is_trusted: bool = False
    ) -> tuple[ToolChange, ...]: ...

    def learn(self, server: str, tool: str, schema: Json) -> None: ...


OnCalled = Callable[[str, ToolSchema, Mapping[str, Any], bool], None]
"""Told of each call that was made: the name that rules know, the schema, the arguments, and whether it succeeded."""


def adopt_none(_: str) -> bool:
    """Knows of no further server."""
    return False


def told_nobody(name: str, schema: ToolSchema, arguments: Mapping[str, Any], is_ok: bool) -> None:
    """Tells nobody."""


class NotAuthorized(SecurityError):  # noqa: N818 - a sentence about the agent
    """The agent's configuration does not give it this server or tool."""


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    server: str
    tool: str
    arguments: Mapping[str, Any]
    agent: str
    surface: str
    ask: Asker
    session: str = ""
    timeout: float | None = None
    progress: Progress | None = None
    is_custom: bool = False
    """A function of ours; the group stands in the place of the server."""

    @property
    def name(self) -> str:
        """What rules and events know it by."""
        return f"{self.server}.{self.tool}" if self.is_custom else f"mcp__{self.server}__{self.tool}"


@dataclass(slots=True)
class _Told:
    """What became of a call, for its event."""

    decision: Decision | None = None
    called: bool = False
    outcome: Outcome = Outcome.FAILED
    code: int = SystemFault.code
    reason: str = "The call was broken off."

    def ended(self, outcome: Outcome, code: int = 0, reason: str = "") -> None:
        self.outcome, self.code, self.reason = outcome, code, reason


@dataclass(slots=True)
class Upstream:
    """Used on the loop of its callee alone."""

    policy: Policy
    audit: EventLog
    catalog: Knowledge
    callee: Callee
    authorization: Authorization
    allowances: Allowances
    servers: Collection[str]
    on_learnt: Callable[[], None]
    """More is known of a tool than its file says."""
    trusted: Collection[str] = ()
    """Servers whose tools may change without being accepted again."""
    adopt: Callable[[str], bool] = adopt_none
    """Attaches a server that was configured and synced meanwhile, if this name is one's."""
    on_called: OnCalled = told_nobody
    _known: dict[tuple[str, str], KnownTool] = field(default_factory=dict[tuple[str, str], KnownTool])
    _verified: dict[str, ServerListing] = field(default_factory=dict[str, ServerListing])
    _version: int = -1
    _look_again: float = 0.0
    _recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        self._recorder = Recorder(self.audit)

    async def call(self, call: UpstreamCall) -> ToolAnswer:
        started = time.perf_counter()
        told = _Told()
        try:
            self._recorder.catch_up()
            answer = await self._call(call, told)
            if answer.is_error:
                told.ended(Outcome.FAILED, ToolError.code, "The tool reported an error.")
            else:
                told.ended(Outcome.OK)
        except asyncio.CancelledError:
            told.ended(Outcome.CANCELLED)
            raise
        except AnswerPending:
            told.ended(Outcome.ASKED)
            raise
        except ToolyardError as error:
            told.ended(_OUTCOMES.get(error.kind, Outcome.FAILED), error.code, _first_sentence(error))
            raise
        finally:
            event = _event(call, told, (time.perf_counter() - started) * 1000)
            fault = self._recorder.record(event, ran=told.called)
        if fault is not None:
            called = f"{call.name} was called, but could not be recorded."
            raise SystemFault(f"{called} {fault.message}", hint=fault.hint)
        return answer

    async def _call(self, call: UpstreamCall, told: _Told) -> ToolAnswer:
        known = await self._approved_tool(call, told)
        self.allowances.take(call.agent, call.server, call.tool)
        told.called = True
        is_ok = False
        try:
            answer = await self.callee.call(call.server, call.tool, call.arguments, call.timeout, call.progress)
            is_ok = not answer.is_error
        finally:
            self.on_called(call.name, known.schema, call.arguments, is_ok)
        if known.schema.output_schema is None and known.inferred is None:
            self._learn(call, answer)
        return answer

    async def _approved_tool(self, call: UpstreamCall, told: _Told) -> KnownTool:
        """The tool, once it may be called. What is refused starts no server."""
        known = self._allowed(call)
        while True:
            await self._decide(call, known, told)
            current = await self._verified_tool(call, known)
            if current is known or current.schema == known.schema:
                return current
            known = current  # a trusted server has changed it: what was decided was about another tool

    async def _decide(self, call: UpstreamCall, known: KnownTool, told: _Told) -> None:
        action = Action(Kind.CALL, call.name, agent=call.agent, claims_read_only=known.schema.is_read_only)
        decision = self.policy.decide(action)
        if decision.effect is Effect.ALLOW and self.allowances.asks(call.server, call.tool):
            decision = Decision(Effect.ASK, f"The limits of {call.name} say to ask before each call.")
        told.decision = decision
        if decision.effect is Effect.DENY:
            raise SecurityError.refused(decision.reason)
        if decision.effect is Effect.ASK:
            await self._ask(call, action, decision)

    async def _verified_tool(self, call: UpstreamCall, known: KnownTool) -> KnownTool:
        """The tool, once it is known that the server that runs is the one that was pinned, not another version."""
        return self._allowed(call) if await self.verify(call.server) else known

    def forget(self, server: str) -> None:
        """What is known of a server that is attached no longer, or anew."""
        self._known.clear()
        self._verified.pop(server, None)

    async def verify(self, server: str) -> bool:
        """Record how the tools of a server differ from what is pinned. Returns whether it was listed anew."""
        listing = await self.callee.listing(server)
        if self._verified.get(server) is listing:
            return False
        is_trusted = server in self.trusted
        if await self._recorded(listing, is_trusted=is_trusted):
            self._known.clear()
            if is_trusted:
                self.on_learnt()
        self._verified[server] = listing
        return True

    async def _recorded(self, listing: ServerListing, *, is_trusted: bool) -> tuple[ToolChange, ...]:
        """What changed. Another process may be writing to the catalog: then this call waits, and no other."""
        last = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return self.catalog.record(listing, None, is_trusted=is_trusted)
            except CatalogBusy:
                if time.monotonic() >= last:
                    raise
            await as_task()
            await asyncio.sleep(_BUSY_PAUSE)

    def _allowed(self, call: UpstreamCall) -> KnownTool:
        """What is known of the tool, if this agent may call it."""
        server, tool = call.server, call.tool
        now = time.monotonic()
        if now >= self._look_again:
            self._look_again = now + _LOOK_SECONDS
            version = self.catalog.version()
            if version != self._version:  # somebody else has synced
                self._known.clear()
                self._version = version
        known = self._known.get((server, tool))
        if known is None:
            if server not in self.servers and not self.adopt(server):
                raise ValidationError.of(
                    "server", f"there is no server {server[:100]!r}", hint=_guess(server, self.servers)
                )
            if not self.authorization.may_use(server):
                raise NotAuthorized(f"Agent '{call.agent}' not authorized for server '{server}'")
            if not self.authorization.may_call(server, tool):
                raise NotAuthorized(f"Agent '{call.agent}' not authorized for tool '{tool}' of server '{server}'")
            known = self.catalog.tool(server, tool)
            if known is None:
                names = self.catalog.tool_names(server)
                hint = _guess(tool, names) if names else f"Nothing is known of it yet: run `toolyard sync {server}`."
                raise ValidationError.of("tool", f"{server} has no tool {tool[:100]!r}", hint=hint)
            if known.waiting is None:
                self._known[server, tool] = known
        if known.waiting is not None:
            raise SecurityError(
                f"{server}.{tool} has changed since it was pinned, and nobody has accepted the change yet.",
                hint=f"Let the user look at it (`toolyard sync`), then accept it: `toolyard sync --accept {server}`.",
            )
        return known

    def goes_straight(self, server: str) -> bool:
        return self.callee.goes_straight(server)

    async def _ask(self, call: UpstreamCall, action: Action, decision: Decision) -> None:
        await as_task()
        if not await call.ask(action, decision):
            raise SecurityError(
                f"{decision.reason} Nobody said yes.",
                hint=f"Ask the user to allow it (the rule {call.name}), or do without.",
            )

    def _learn(self, call: UpstreamCall, answer: ToolAnswer) -> None:
        shape = infer(answer)
        if shape is None:
            return
        try:
            self.catalog.learn(call.server, call.tool, shape)
        except CatalogBusy:  # the next result will do as well
            return
        self._known.pop((call.server, call.tool), None)
        self.on_learnt()


def _guess(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name[:_GUESSED_CHARS], known, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    if not known:
        return "None is attached: `--config F` names the file that has them."
    listed = sorted(known)[:_SHOWN_NAMES]
    more = f" and {len(known) - len(listed)} more" if len(known) > len(listed) else ""
    return f"There are {', '.join(listed)}{more}."


def _first_sentence(error: ToolyardError) -> str:
    """What the log keeps: a server's message may quote anything after its first sentence."""
    first = error.message.partition("\n")[0]
    sentence, more, _ = first.partition(". ")
    return f"{sentence}." if more else first


def _event(call: UpstreamCall, told: _Told, milliseconds: float) -> Event:
    decision = told.decision
    return Event(
        call=new_id(),
        surface=call.surface,
        agent=call.agent,
        session=call.session,
        tool=call.name[:TARGET_CHARS],
        kind=Kind.CALL.value,
        target="",
        decision=decision.effect.value if decision else "",
        reason=(told.reason or (decision.reason if decision else ""))[:TARGET_CHARS],
        outcome=told.outcome,
        code=told.code,
        milliseconds=round(milliseconds, 3),
    )
