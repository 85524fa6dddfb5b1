"""Answers the broker's requests from sandboxed code: tool calls, searches, skills."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toolyard.codemode.approval_router import ApprovalRouter
from toolyard.codemode.broker import BrokerRequest, RequestKind, UpstreamProgress, ignore_progress
from toolyard.codemode.files import OWN_SERVER
from toolyard.codemode.own_tools import call_own_tool
from toolyard.codemode.schema_mismatch import add_mismatch_hint, mismatch_text, schema_mismatches
from toolyard.codemode.search import Hit
from toolyard.codemode.skill_requests import SkillRequests
from toolyard.codemode.upstream_caller import UpstreamCall, UpstreamCaller
from toolyard.core.actions import Action, Decision
from toolyard.core.calls import AnswerPending, Dispatcher
from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.upstream import UpstreamResult

SURFACE = "code"
_MAX_HITS = 50
_MAX_PATHS = 50
_MAX_QUERY_CHARS = 10_000

FindTools = Callable[[str, int, tuple[str, ...]], list[Hit]]


@dataclass(frozen=True, slots=True)
class BrokerHandler:
    """The broker's request handler. `custom` calls tools of this process, `find_tools` searches the catalog."""

    upstream: UpstreamCaller
    custom: UpstreamCaller
    unwrap_custom_result: Callable[[str, UpstreamResult], UpstreamResult]
    """Converts the result of a custom tool to the form that code gets."""
    approvals: ApprovalRouter
    find_tools: FindTools
    skills: SkillRequests
    server_for_code_name: Callable[[str], str]
    """Returns the server that code means by a name."""
    own_tools: Dispatcher | None = None
    """Runs Toolyard's own file tools."""

    async def __call__(self, request: BrokerRequest, progress: UpstreamProgress) -> Any:
        match request.do:
            case RequestKind.MCP if request.server == OWN_SERVER and self.own_tools is not None:
                return await call_own_tool(
                    self.own_tools, self._upstream_call(request, OWN_SERVER, request.tool, progress)
                )
            case RequestKind.MCP:
                call = self._upstream_call(request, self.server_for_code_name(request.server), request.tool, progress)
                try:
                    answer = await self.upstream.call(call)
                except (ValidationError, ToolError) as error:
                    raise add_mismatch_hint(
                        error, f"{call.server}.{call.tool}", self._schema_mismatches(call)
                    ) from None
                return answer if not answer.is_error else self._explain_error(call, answer)
            case RequestKind.CUSTOM:
                group, _, tool = request.tool.partition(".")
                call = replace(self._upstream_call(request, group, tool, progress), is_custom=True)
                return self.unwrap_custom_result(request.tool, await self.custom.call(call))
            case RequestKind.SEARCH:
                return await asyncio.to_thread(self._search, request)
            case RequestKind.SKILL:
                return await self.skills.save(request, self._ask)
            case RequestKind.PROMOTE:
                return await self.skills.promote(request, self._ask)
            case RequestKind.SKILLS:
                return await self.skills.list_skills()

    def _explain_error(self, call: UpstreamCall, answer: UpstreamResult) -> UpstreamResult:
        """Adds the arguments that violate the tool's schema to the server's error."""
        found = self._schema_mismatches(call)
        if not found:
            return answer
        text = mismatch_text(f"{call.server}.{call.tool}", found)
        return replace(answer, content=(*answer.content, {"type": "text", "text": text}))

    def _schema_mismatches(self, call: UpstreamCall) -> tuple[str, ...]:
        known = self.upstream.catalog.tool(call.server, call.tool)
        return schema_mismatches(known.schema.input_schema, call.arguments) if known is not None else ()

    def can_run_eagerly(self, request: BrokerRequest) -> bool:
        if request.do is not RequestKind.MCP or (request.server == OWN_SERVER and self.own_tools is not None):
            return False
        return self.upstream.can_run_eagerly(self.server_for_code_name(request.server))

    def _upstream_call(
        self, request: BrokerRequest, server: str, tool: str, progress: UpstreamProgress
    ) -> UpstreamCall:
        return UpstreamCall(
            server=server,
            tool=tool,
            arguments=request.arguments,
            agent=request.agent,
            surface=SURFACE,
            ask=self._ask,
            timeout=request.timeout,
            progress=None
            if progress is ignore_progress
            else progress,  # without a listener, the server need not send progress
        )

    async def _ask(self, action: Action, decision: Decision) -> bool:
        """Asks for approval. Returns False for clients that can only answer with their next request: code is not run
        again.
        """
        try:
            return await self.approvals.ask(action, decision)
        except AnswerPending:
            return False

    def _search(self, request: BrokerRequest) -> list[dict[str, Any]]:
        query, top, paths = (request.arguments.get(name) for name in ("query", "top_k", "search_paths"))
        if not isinstance(query, str) or not query.strip():
            raise ValidationError.of("query", "is empty", hint="Say in a few words what the tool should do.")
        if len(query) > _MAX_QUERY_CHARS:
            many = f"has more than {_MAX_QUERY_CHARS:,} characters"
            raise ValidationError.of("query", many, hint="Say in a few words what the tool should do.")
        if isinstance(paths, list) and len(paths) > _MAX_PATHS:  # pyright: ignore[reportUnknownArgumentType]
            raise ValidationError.of(
                "search_paths", f"are more than {_MAX_PATHS}", hint="Name the folder they have in common."
            )
        most = top if type(top) is int and 0 < top <= _MAX_HITS else _MAX_HITS
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
            for hit in self.find_tools(query, most, within)
        ]
