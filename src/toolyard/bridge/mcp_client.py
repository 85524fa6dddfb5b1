"""The client behind one request of the MCP SDK, in both eras of the protocol.

Before 2026-07-28 it is asked in the middle of the call, by `sampling/createMessage` and `roots/list`. From then on
the call ends with `input_required` and comes back with the answers; what was asked and what was answered so far
travels in the request state, which the SDK seals, so that a client cannot answer what nobody asked.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import mcp_types as types
import pydantic
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.request_state import authenticated_principal
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolyard.bridge.client import SamplingAnswer
from toolyard.bridge.errors import BadAnswerError, SamplingRefusedError, SamplingTimeoutError, printable_text
from toolyard.bridge.sampling_prompts import PUSH_TOOL_NAME, SamplingQuestion
from toolyard.core.calls import AnswerPending
from toolyard.core.errors import ConfigError, ValidationError

if TYPE_CHECKING:
    from fastmcp import Context as FastContext

    AnyContext = Context[Any, Any] | ServerRequestContext[Any, Any] | FastContext
Identify = Callable[[ServerRequestContext[Any, Any]], str]

_SESSION_HEADER: Final = "mcp-session-id"
_LOCAL: Final = "local"
"""Whoever is at the other end of stdio: there is one."""
_MAX_TOKENS: Final = 32_000
"""Of an answer. A file is not in it, where tools cannot be handed over; a listing is."""
_CUT_OFF: Final = "maxTokens"
_SHOWN_CHARS: Final = 200
_ROOTS: Final = "roots"
_T = TypeVar("_T", bound=pydantic.BaseModel)


def _sdk_context(context: Context[Any, Any] | FastContext) -> ServerRequestContext[Any, Any]:
    request = context.request_context
    if isinstance(request, ServerRequestContext):
        return request
    if request is None:
        message = "A FilesystemBridge needs a request: its files are those of the client behind it."
        raise ConfigError(message, hint="Make it inside of a tool, not in a background task or at start-up.")
    return request._srctx  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - FastMCP's own way to the SDK's


class RoundNeeded(AnswerPending):
    """What the client of a 2026-07-28 session is sent in place of the tool's result."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__("the client has to answer first: decorate this tool with BridgeHost.asks")
        self.result = result


class McpClient:
    def __init__(
        self,
        context: AnyContext,
        params: types.InputResponseRequestParams | None = None,
        *,
        tool: types.Tool | None = None,
        identify: Identify | None = None,
        process: str = "",
    ) -> None:
        """`params` are those of a request to a low-level server; `tool` is guide_cache_file as it is offered.

        `process` tells whoever is at the other end of stdio from those of other processes that share a cache.
        """
        if isinstance(context, ServerRequestContext):
            self._context = context
            responses, state = (params.input_responses, params.request_state) if params else (None, None)
        else:
            self._context = _sdk_context(context)
            responses, state = context.input_responses, context.request_state
        self._tool = tool
        self._is_modern = self._context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._rounds = _InputRounds(responses or {}, state)
        self._roots: tuple[str, ...] | None = None
        known = (identify or client_identity)(self._context)
        self.identity = f"{known}-{process}" if known == _LOCAL and process else known

    @property
    def title(self) -> str:
        known = self._context.session.client_params
        return printable_text(f"{known.client_info.name} {known.client_info.version}")[:_SHOWN_CHARS] if known else ""

    @property
    def can_sample(self) -> bool:
        return self._has_capability(types.ClientCapabilities(sampling=types.SamplingCapability()))

    @property
    def can_use_tools(self) -> bool:
        with_tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
        return self._tool is not None and self._has_capability(types.ClientCapabilities(sampling=with_tools))

    @property
    def offers_roots(self) -> bool:
        return self._has_capability(types.ClientCapabilities(roots=types.RootsCapability()))

    def _has_capability(self, capability: types.ClientCapabilities) -> bool:
        session = self._context.session
        return session.check_client_capability(capability) and (self._is_modern or session.can_send_request)

    def has_answered(self, question: SamplingQuestion) -> bool:
        return self._is_modern and self._rounds.was_asked(_question_key(question))

    async def ask(self, questions: Sequence[SamplingQuestion], seconds: float) -> list[SamplingAnswer]:
        if self._is_modern:
            return self._answers_from_rounds(questions, seconds)
        answers: list[SamplingAnswer | None] = [None] * len(questions)

        async def ask_one(number: int, question: SamplingQuestion) -> None:
            answers[number] = await self._sample(question, seconds)

        try:
            async with anyio.create_task_group() as group:
                for number, question in enumerate(questions):
                    group.start_soon(ask_one, number, question)
        except BaseExceptionGroup as errors:
            raise _first_error(errors) from None
        return [answer for answer in answers if answer is not None]

    async def roots(self, seconds: float) -> tuple[str, ...]:
        if self._roots is None:
            self._roots = await self._request_roots(seconds)
        return self._roots

    async def _request_roots(self, seconds: float) -> tuple[str, ...]:
        wanted = "its roots"
        if not self._is_modern:
            try:
                with anyio.fail_after(seconds):
                    listed = await self._send_request(types.ListRootsRequest(), types.ListRootsResult, wanted)
            except TimeoutError:
                raise SamplingTimeoutError(wanted, seconds) from None
        else:
            listed = self._rounds.answer_for(_ROOTS, wanted, seconds)
            if listed is None:
                raise self._rounds.next_round({_ROOTS: types.ListRootsRequest()})
        if not isinstance(listed, types.ListRootsResult):
            raise BadAnswerError(wanted, "it is no list of roots")
        return tuple(str(root.uri) for root in listed.roots)

    async def _sample(self, question: SamplingQuestion, seconds: float) -> SamplingAnswer:
        asked = time.time()
        params = self._message_params(question)
        shape = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
        try:
            with anyio.fail_after(seconds):
                result = await self._send_request(types.CreateMessageRequest(params=params), shape, question.title)
        except TimeoutError:
            raise SamplingTimeoutError(question.title, seconds) from None
        return _build_answer(result, asked)

    async def _send_request(self, request: types.ServerRequest, shape: type[_T], wanted: str) -> _T:
        metadata = ServerMessageMetadata(related_request_id=self._context.request_id)
        try:
            return await self._context.session.send_request(request, shape, metadata=metadata)
        except MCPError as error:
            raise SamplingRefusedError(wanted, printable_text(str(error))[:_SHOWN_CHARS]) from None
        except pydantic.ValidationError:
            raise BadAnswerError(wanted, "it is no answer to that request") from None

    def _answers_from_rounds(self, questions: Sequence[SamplingQuestion], seconds: float) -> list[SamplingAnswer]:
        """All that are not answered yet are asked in one round: clients allow only so many."""
        answers: list[SamplingAnswer] = []
        missing: dict[str, types.InputRequest] = {}
        for question in questions:
            key = _question_key(question)
            found = self._rounds.answer_for(key, question.title, seconds)
            if found is None:
                missing[key] = types.CreateMessageRequest(params=self._message_params(question))
            else:
                answers.append(_build_answer(found, self._rounds.asked_at(key)))
        if missing:
            raise self._rounds.next_round(missing)
        return answers

    def _message_params(self, question: SamplingQuestion) -> types.CreateMessageRequestParams:
        tools = [self._tool] if self._tool is not None and question.expects_push and self.can_use_tools else None
        return types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(type="text", text=question.text))],
            system_prompt=question.system,
            max_tokens=_MAX_TOKENS,
            temperature=0.0,
            metadata=question.request,
            tools=tools,
        )


class _InputRounds:
    """What was asked and answered in the rounds of one call before this one."""

    def __init__(self, responses: Mapping[str, types.InputResponse], state: str | None) -> None:
        # The SDK has unsealed the state and vouches that we wrote it, unless a low-level server left that out.
        try:
            known = _STATE.validate_json(state) if state else _State()
        except pydantic.ValidationError:
            raise ValidationError.of("requestState", "is not what was sent", hint="Call the tool anew.") from None
        self._asked, self._earlier_answers = known.asked, known.answers
        self._new_answers = {
            key: each for key, each in responses.items() if key in self._asked and key not in self._earlier_answers
        }

    def was_asked(self, key: str) -> bool:
        return key in self._asked

    def asked_at(self, key: str) -> float:
        return self._asked[key]

    def answer_for(self, key: str, wanted: str, seconds: float) -> types.InputResponse | None:
        """None where it was not asked yet. Raises where it was, and there is no answer in time."""
        if key not in self._asked:
            return None
        if key in self._earlier_answers:
            return _ANSWERS.validate_python(self._earlier_answers[key])
        if key not in self._new_answers:
            raise SamplingRefusedError(wanted, "it came back without an answer")
        if time.time() - self._asked[key] > seconds:
            raise SamplingTimeoutError(wanted, seconds)
        return self._new_answers[key]

    def next_round(self, requests: Mapping[str, types.InputRequest]) -> RoundNeeded:
        now = time.time()
        answers = {
            key: each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for key, each in self._new_answers.items()
        }
        state = json.dumps(
            {
                "asked": {**self._asked, **dict.fromkeys(requests, now)},
                "answers": {**self._earlier_answers, **answers},
            }
        )
        return RoundNeeded(types.InputRequiredResult(input_requests=dict(requests), request_state=state))


class _State(pydantic.BaseModel):
    asked: dict[str, float] = {}
    answers: dict[str, dict[str, Any]] = {}


_STATE: pydantic.TypeAdapter[_State] = pydantic.TypeAdapter(_State)
_ANSWERS: pydantic.TypeAdapter[types.InputResponse] = pydantic.TypeAdapter(types.InputResponse)


def client_identity(context: ServerRequestContext[Any, Any]) -> str:
    """Who is behind a request: who signed in, else the session, else whoever is at the other end of stdio.

    Raises ConfigError over HTTP where nothing tells clients apart: they would see each other's files.
    """
    principal = authenticated_principal(context)
    if principal is not None:
        return f"principal-{_digest(principal)}"
    headers = getattr(context.request, "headers", None)
    if headers is None:
        return _LOCAL
    # A session is free to open: who has a token is the same in all of them, however it is spelled.
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    if token.strip():
        return f"token-{_digest(f'{scheme.lower()} {token.strip()}')}"
    # Nobody has checked the header of a request that belongs to no session.
    session = headers.get(_SESSION_HEADER) if context.protocol_version not in MODERN_PROTOCOL_VERSIONS else None
    if session:
        return f"session-{_digest(session)}"
    raise ConfigError(
        "This request has neither a session nor a sign-in, so that nothing tells this client from others.",
        hint="Have clients sign in or send a token, or say with BridgeHost(identify=...) whose files are whose: "
        "identify=one_client where there is one user alone.",
    )


def one_client(context: ServerRequestContext[Any, Any]) -> str:
    """For `BridgeHost(identify=one_client)`: a server that one user alone can reach, whoever of theirs connects."""
    del context
    return _LOCAL


def _build_answer(result: object, asked: float) -> SamplingAnswer:
    if not isinstance(result, (types.CreateMessageResult, types.CreateMessageResultWithTools)):
        return SamplingAnswer("", asked, problem="it is no message")
    content = result.content if isinstance(result.content, list) else [result.content]
    texts = [block.text for block in content if isinstance(block, types.TextContent)]
    calls = [block for block in content if isinstance(block, types.ToolUseContent)]
    if len(texts) + len(calls) != len(content) or len(texts) > 1 or (texts and calls):
        return SamplingAnswer("", asked, problem="it is more than one text, or than calls of a tool")
    if any(call.name != PUSH_TOOL_NAME for call in calls):
        return SamplingAnswer("", asked, problem=f"it calls another tool than {PUSH_TOOL_NAME}")
    cut = "it was cut off at the limit of the model's output" if result.stop_reason == _CUT_OFF else ""
    return SamplingAnswer("".join(texts), asked, tuple(call.input for call in calls), problem=cut)


def _question_key(question: SamplingQuestion) -> str:
    said = json.dumps(question.request, sort_keys=True)
    return f"files-{_digest(said)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _first_error(error: BaseException) -> BaseException:
    """Of those that happened at once, the one to tell of."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
