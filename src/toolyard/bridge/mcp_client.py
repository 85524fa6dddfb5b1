"""The client behind one request of the MCP SDK, for protocol versions before and since 2026-07-28.

Before 2026-07-28 the client is asked during the call, by `sampling/createMessage` and `roots/list`. Since then the
call ends with `input_required` and is repeated with the answers; the questions and answers so far are in the request
state, which the SDK seals, so that a client cannot answer a question that was not asked.
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
"""The identity of the single client at the other end of stdio."""
_MAX_TOKENS: Final = 32_000
"""Maximum size of an answer. It contains listings; files only if the model can use tools."""
_CUT_OFF: Final = "maxTokens"
_SHOWN_CHARS: Final = 200
_ROOTS: Final = "roots"
_T = TypeVar("_T", bound=pydantic.BaseModel)


def _sdk_context(context: Context[Any, Any] | FastContext) -> ServerRequestContext[Any, Any]:
    request = context.request_context
    if isinstance(request, ServerRequestContext):
        return request
    if request is None:
        message = "A FilesystemBridge needs a request: it reads the files of the client that sent it."
        raise ConfigError(message, hint="Create it inside a tool, not in a background task or at start-up.")
    return request._srctx  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - FastMCP has no public accessor


class RoundNeeded(AnswerPending):
    """Carries the input request that a 2026-07-28 client gets in place of the tool's result."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__("the client must answer first: decorate this tool with BridgeHost.asks")
        self.result = result


class McpClient:
    """Implements `BridgeClient` for a request of the MCP SDK or FastMCP."""

    def __init__(
        self,
        context: AnyContext,
        params: types.InputResponseRequestParams | None = None,
        *,
        tool: types.Tool | None = None,
        identify: Identify | None = None,
        process: str = "",
    ) -> None:
        """`params` are those of a request to a low-level server; `tool` is guide_cache_file as offered to clients.

        `process` distinguishes the stdio client from those of other processes that share the cache.
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
            raise BadAnswerError(wanted, "it is not a list of roots")
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
            raise BadAnswerError(wanted, "it is not a valid answer to the request") from None

    def _answers_from_rounds(self, questions: Sequence[SamplingQuestion], seconds: float) -> list[SamplingAnswer]:
        """Returns the answers, or asks all open questions in one round, because clients limit the rounds."""
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
    """The questions and answers of the previous rounds of one call."""

    def __init__(self, responses: Mapping[str, types.InputResponse], state: str | None) -> None:
        # The SDK has verified that we wrote the state, unless a low-level server skipped that.
        try:
            known = _STATE.validate_json(state) if state else _State()
        except pydantic.ValidationError:
            raise ValidationError.of("requestState", "is not what was sent", hint="Call the tool again.") from None
        self._asked, self._earlier_answers = known.asked, known.answers
        self._new_answers = {
            key: each for key, each in responses.items() if key in self._asked and key not in self._earlier_answers
        }

    def was_asked(self, key: str) -> bool:
        return key in self._asked

    def asked_at(self, key: str) -> float:
        return self._asked[key]

    def answer_for(self, key: str, wanted: str, seconds: float) -> types.InputResponse | None:
        """Returns the answer; None if the question was not asked yet. Raises if it was not answered in time."""
        if key not in self._asked:
            return None
        if key in self._earlier_answers:
            return _ANSWERS.validate_python(self._earlier_answers[key])
        if key not in self._new_answers:
            raise SamplingRefusedError(wanted, "it repeated the call without an answer")
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
    """Returns the identity behind a request: the authenticated user, the token, the session, or the stdio client.

    Raises ConfigError over HTTP if nothing distinguishes clients: they would see each other's files.
    """
    principal = authenticated_principal(context)
    if principal is not None:
        return f"principal-{_digest(principal)}"
    headers = getattr(context.request, "headers", None)
    if headers is None:
        return _LOCAL
    # Anyone can open many sessions, so a token identifies its owner across all of them, in any spelling.
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    if token.strip():
        return f"token-{_digest(f'{scheme.lower()} {token.strip()}')}"
    # Without sessions in the protocol, the header is not verified.
    session = headers.get(_SESSION_HEADER) if context.protocol_version not in MODERN_PROTOCOL_VERSIONS else None
    if session:
        return f"session-{_digest(session)}"
    raise ConfigError(
        "This request has neither a session nor authentication, so this client cannot be distinguished from others.",
        hint="Have clients sign in or send a token, or identify them with BridgeHost(identify=...): "
        "identify=one_client if there is only one user.",
    )


def one_client(context: ServerRequestContext[Any, Any]) -> str:
    """For `BridgeHost(identify=one_client)`: a server that only one user can access, with any number of clients."""
    del context
    return _LOCAL


def _build_answer(result: object, asked: float) -> SamplingAnswer:
    if not isinstance(result, (types.CreateMessageResult, types.CreateMessageResultWithTools)):
        return SamplingAnswer("", asked, problem="it is not a message")
    content = result.content if isinstance(result.content, list) else [result.content]
    texts = [block.text for block in content if isinstance(block, types.TextContent)]
    calls = [block for block in content if isinstance(block, types.ToolUseContent)]
    if len(texts) + len(calls) != len(content) or len(texts) > 1 or (texts and calls):
        return SamplingAnswer("", asked, problem="it is neither a single text nor only tool calls")
    if any(call.name != PUSH_TOOL_NAME for call in calls):
        return SamplingAnswer("", asked, problem=f"it calls a tool other than {PUSH_TOOL_NAME}")
    cut = "it was cut off at the limit of the model's output" if result.stop_reason == _CUT_OFF else ""
    return SamplingAnswer("".join(texts), asked, tuple(call.input for call in calls), problem=cut)


def _question_key(question: SamplingQuestion) -> str:
    said = json.dumps(question.request, sort_keys=True)
    return f"files-{_digest(said)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _first_error(error: BaseException) -> BaseException:
    """Returns the first error of a group, for reporting."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
