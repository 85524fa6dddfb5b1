"""Builds the HTTP reply to a request and a step. The path selects the API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolyard.testing.mock_model.anthropic import Anthropic
from toolyard.testing.mock_model.chat import Chat
from toolyard.testing.mock_model.gemini import Gemini
from toolyard.testing.mock_model.requests import BYTES_PER_TOKEN, Json, Request, as_object
from toolyard.testing.mock_model.responses import Responses
from toolyard.testing.mock_model.steps import (
    Cut,
    Drop,
    Empty,
    Fail,
    Hang,
    Nonsense,
    Say,
    Step,
    TooLong,
    Turn,
    as_turn,
)
from toolyard.testing.mock_model.wire import DEFAULT_ERROR_MESSAGES, ApiError, ModelAnswer, ProviderApi, to_json

GEMINI, CHAT, RESPONSES, ANTHROPIC = Gemini(), Chat(), Responses(), Anthropic()
APIS: Mapping[str, ProviderApi] = {api.name: api for api in (GEMINI, CHAT, RESPONSES, ANTHROPIC)}
_PATHS: Mapping[str, ProviderApi] = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/messages": ANTHROPIC,
    "/messages/count_tokens": ANTHROPIC,
}
_COUNT_MARKERS = ("count_tokens", "countTokens")
_JSON, _EVENT_STREAM = "application/json", "text/event-stream"
_TORN_WORD = "one-word-that-is-never-said-in-whole"
_TORN_BYTES = 5
_GARBAGE = b"\n\ndata: {]nonsense\n\n"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """Status, headers and body pieces of a response."""

    status: int = 200
    content_type: str = _JSON
    pieces: tuple[bytes, ...] = ()
    is_stream: bool = False
    """Whether the pieces are sent one by one, as chunks."""
    is_cut: bool = False
    """Whether the connection is closed after the pieces although more was announced."""
    delay: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def api_for_path(path: str) -> ProviderApi | None:
    """Returns the API that a path belongs to; None for an unknown path."""
    plain = path.partition("?")[0]
    if "/models/" in plain and ":" in plain:
        return GEMINI
    return next((api for ending, api in _PATHS.items() if plain.endswith(ending)), None)


def parse_request(method: str, path: str, headers: Mapping[str, str], raw: bytes) -> Request:
    """Parses a request. A body that is not a JSON object yields a request without an API, which gets an error."""
    try:
        read = json.loads(raw or b"{}")
    except ValueError:
        read = None
    body = as_object(read)
    api = api_for_path(path) if method == "POST" and read is not None else None
    if api is None:
        return Request(method, path, headers, body)
    return Request(
        method,
        path,
        headers,
        body,
        api.name,
        not any(word in path for word in _COUNT_MARKERS),
        api.is_streaming(path, body),
        len(raw) // BYTES_PER_TOKEN,
        api.parse_conversation(path, body),
    )


def non_turn_reply(request: Request, token_count: int | None = None) -> HttpReply:
    """Returns the reply to a request that asks for no turn. A `token_count` of None is replaced by an estimate."""
    if request.method == "HEAD":
        return HttpReply(content_type="text/plain")
    if request.api and not request.is_turn:
        return _json_reply(APIS[request.api].token_count_body(request.tokens if token_count is None else token_count))
    return _json_reply({"error": {"code": 404, "message": f"nothing is at {request.path}", "type": "not_found"}}, 404)


def unpaired_reply(request: Request) -> HttpReply | None:
    """Returns the error for a conversation with unpaired calls or results; None for a valid one."""
    missing, strange = request.conversation.unpaired_ids
    api = APIS[request.api]
    return _error_reply(api, api.unpaired_error(missing, strange)) if missing or strange else None


def reply_to(request: Request, step: Step) -> HttpReply:
    """Returns the reply for a step. `Hang` has none and must not be passed."""
    api = APIS[request.api]
    match step:
        case Fail(status, retry_after, message):
            failure = ApiError(
                status, message or DEFAULT_ERROR_MESSAGES.get(status, "something is wrong"), retry_after
            )
            is_midway = step.midway and request.is_streaming
            return _interrupted_reply(api, request, failure) if is_midway else _error_reply(api, failure)
        case TooLong():
            failure = api.too_long_error(step)
            # This API counts only after it has sent its first events.
            is_late = api is RESPONSES and request.is_streaming
            return _interrupted_reply(api, request, failure, is_early=True) if is_late else _error_reply(api, failure)
        case Drop() | Hang():
            return HttpReply(is_cut=True)
        case Cut(text):
            return _cut_reply(_turn_reply(api, request, Turn(text)), is_quiet=step.is_quiet)
        case Nonsense():
            return _garbled_reply(_turn_reply(api, request, Turn(_TORN_WORD)))
        case Empty():
            return _turn_reply(api, request, Turn())
        case _:
            return _turn_reply(api, request, as_turn(step))


def _json_reply(value: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpReply:
    return HttpReply(status, pieces=(to_json(value).encode(),), headers=headers or {})


def _error_reply(api: ProviderApi, failure: ApiError) -> HttpReply:
    return _json_reply(api.error_body(failure), failure.status, api.error_headers(failure))


def _turn_reply(api: ProviderApi, request: Request, turn: Turn) -> HttpReply:
    answer = ModelAnswer(turn, request)
    if not request.is_streaming:
        return HttpReply(pieces=(to_json(api.full_response(answer)).encode(),), delay=turn.delay)
    events = api.stream_events(answer)
    if api is GEMINI and "alt=sse" not in request.path:
        starts = ["[", *[",\r\n"] * (len(events) - 1)]
        listed = [(start + to_json(event)).encode() for start, event in zip(starts, events, strict=True)]
        return HttpReply(pieces=(*listed, b"]"), is_stream=True, delay=turn.delay)
    return HttpReply(
        content_type=_EVENT_STREAM, pieces=tuple(map(api.encode_event, events)), is_stream=True, delay=turn.delay
    )


def _cut_reply(reply: HttpReply, *, is_quiet: bool) -> HttpReply:
    if reply.is_stream:
        pieces = reply.pieces[: (len(reply.pieces) + 1) // 2]
        return HttpReply(reply.status, reply.content_type, pieces, is_stream=True, is_cut=not is_quiet)
    return HttpReply(reply.status, reply.content_type, reply.pieces, is_cut=True)


def _garbled_reply(reply: HttpReply) -> HttpReply:
    if not reply.is_stream:
        return HttpReply(pieces=(b'{"choices": {]nonsense',))
    middle = next(at for at, piece in enumerate(reply.pieces) if _TORN_WORD.encode() in piece)
    torn = reply.pieces[middle].rstrip()[:-_TORN_BYTES]
    return HttpReply(reply.status, reply.content_type, (*reply.pieces[:middle], torn, _GARBAGE), is_stream=True)


def _interrupted_reply(api: ProviderApi, request: Request, failure: ApiError, *, is_early: bool = False) -> HttpReply:
    begun = _turn_reply(api, request, as_turn(Say("This answer began well")))
    sent = begun.pieces[: 2 if is_early else len(begun.pieces) // 2]
    return HttpReply(
        content_type=_EVENT_STREAM, pieces=(*sent, api.encode_error_event(failure, len(sent))), is_stream=True
    )
