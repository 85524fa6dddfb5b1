"""What sandboxed code gets when it asks the broker: calls of tools, searches, skills kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toolyard.codemode.approval_router import Questions
from toolyard.codemode.broker import BrokerRequest, Doing, Progress, tell_nobody
from toolyard.codemode.files import OWN_SERVER
from toolyard.codemode.own_tools import call_own_tool
from toolyard.codemode.schema_mismatch import by_schema, explained, misfits
from toolyard.codemode.search import Hit
from toolyard.codemode.skill_requests import SkillRequests
from toolyard.codemode.upstream_caller import Upstream, UpstreamCall
from toolyard.core.actions import Action, Decision
from toolyard.core.calls import AnswerPending, Dispatcher
from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.upstream import ToolAnswer

SURFACE = "code"
_MOST_HITS = 50
_MOST_PATHS = 50
_MOST_QUERY_CHARS = 10_000

Find = Callable[[str, int, tuple[str, ...]], list[Hit]]


@dataclass(frozen=True, slots=True)
class Answering:
    """A handler of the broker. `custom` calls what runs in this process, `find` searches the catalog."""

    upstream: Upstream
    custom: Upstream
    plain: Callable[[str, ToolAnswer], ToolAnswer]
    """A custom tool's answer as code gets it."""
    questions: Questions
    find: Find
    skills: SkillRequests
    server_called: Callable[[str], str]
    """The server that code means by a name."""
    own: Dispatcher | None = None
    """Runs Toolyard's own file tools."""

    async def __call__(self, request: BrokerRequest, progress: Progress) -> Any:
        match request.do:
            case Doing.MCP if request.server == OWN_SERVER and self.own is not None:
                return await call_own_tool(self.own, self._call(request, OWN_SERVER, request.tool, progress))
            case Doing.MCP:
                call = self._call(request, self.server_called(request.server), request.tool, progress)
                try:
                    answer = await self.upstream.call(call)
                except (ValidationError, ToolError) as error:
                    raise explained(error, f"{call.server}.{call.tool}", self._misfits(call)) from None
                return answer if not answer.is_error else self._explained(call, answer)
            case Doing.CUSTOM:
                group, _, tool = request.tool.partition(".")
                call = replace(self._call(request, group, tool, progress), is_custom=True)
                return self.plain(request.tool, await self.custom.call(call))
            case Doing.SEARCH:
                return await asyncio.to_thread(self._search, request)
            case Doing.SKILL:
                return await self.skills.save(request, self._ask)
            case Doing.PROMOTE:
                return await self.skills.promote(request, self._ask)
            case Doing.SKILLS:
                return await self.skills.listed()

    def _explained(self, call: UpstreamCall, answer: ToolAnswer) -> ToolAnswer:
        """The server's own words, and which arguments are not what its schema asks for."""
        found = self._misfits(call)
        if not found:
            return answer
        text = by_schema(f"{call.server}.{call.tool}", found)
        return replace(answer, content=(*answer.content, {"type": "text", "text": text}))

    def _misfits(self, call: UpstreamCall) -> tuple[str, ...]:
        known = self.upstream.catalog.tool(call.server, call.tool)
        return misfits(known.schema.input_schema, call.arguments) if known is not None else ()

    def goes_straight(self, request: BrokerRequest) -> bool:
        if request.do is not Doing.MCP or (request.server == OWN_SERVER and self.own is not None):
            return False
        return self.upstream.goes_straight(self.server_called(request.server))

    def _call(self, request: BrokerRequest, server: str, tool: str, progress: Progress) -> UpstreamCall:
        return UpstreamCall(
            server=server,
            tool=tool,
            arguments=request.arguments,
            agent=request.agent,
            surface=SURFACE,
            ask=self._ask,
            timeout=request.timeout,
            progress=None if progress is tell_nobody else progress,  # then the server need not tell either
        )

    async def _ask(self, action: Action, decision: Decision) -> bool:
        """Code is not run again with the answer: a client that answers with its next request cannot be asked."""
        try:
            return await self.questions.ask(action, decision)
        except AnswerPending:
            return False

    def _search(self, request: BrokerRequest) -> list[dict[str, Any]]:
        query, top, paths = (request.arguments.get(name) for name in ("query", "top_k", "search_paths"))
        if not isinstance(query, str) or not query.strip():
            raise ValidationError.of("query", "is empty", hint="Say in a few words what the tool should do.")
        if len(query) > _MOST_QUERY_CHARS:
            many = f"has more than {_MOST_QUERY_CHARS:,} characters"
            raise ValidationError.of("query", many, hint="Say in a few words what the tool should do.")
        if isinstance(paths, list) and len(paths) > _MOST_PATHS:  # pyright: ignore[reportUnknownArgumentType]
            raise ValidationError.of(
                "search_paths", f"are more than {_MOST_PATHS}", hint="Name the folder they have in common."
            )
        most = top if type(top) is int and 0 < top <= _MOST_HITS else _MOST_HITS
        within = tuple(str(path) for path in paths) if isinstance(paths, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return [
            {
                "path": hit.path,
                "score": hit.score,
                "server": hit.server,
                "tool": hit.tool,
                "summary": hit.summary,
                "signature": hit.signature,
            }
            for hit in self.find(query, most, within)
        ]
