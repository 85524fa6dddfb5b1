"""From a request and a step to the bytes that go out. Which API is spoken follows from the path alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolyard.testing.mock_model.anthropic import Anthropic
from toolyard.testing.mock_model.chat import Chat
from toolyard.testing.mock_model.gemini import Gemini
from toolyard.testing.mock_model.requests import BYTES_PER_TOKEN, Json, Request, an_object
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
from toolyard.testing.mock_model.wire import MESSAGES, Answer, Api, Failure, dumped

GEMINI, CHAT, RESPONSES, ANTHROPIC = Gemini(), Chat(), Responses(), Anthropic()
APIS: Mapping[str, Api] = {api.name: api for api in (GEMINI, CHAT, RESPONSES, ANTHROPIC)}
_PATHS: Mapping[str, Api] = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/messages": ANTHROPIC,
    "/messages/count_tokens": ANTHROPIC,
}
_COUNTING = ("count_tokens", "countTokens")
_JSON, _EVENTS = "application/json", "text/event-stream"
_BEGUN = "one-word-that-is-never-said-in-whole"
_TORN_OFF = 5
_GARBAGE = b"\n\ndata: {]nonsense\n\n"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    kind: str = _JSON
    pieces: tuple[bytes, ...] = ()
    is_stream: bool = False
    """Whether the pieces go out one by one, as chunks."""
    is_cut: bool = False
    """Whether the connection is closed where the pieces end, though more was promised."""
    delay: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def api_of(path: str) -> Api | None:
    plain = path.partition("?")[0]
    if "/models/" in plain and ":" in plain:
        return GEMINI
    return next((api for ending, api in _PATHS.items() if plain.endswith(ending)), None)


def request_of(method: str, path: str, headers: Mapping[str, str], raw: bytes) -> Request:
    """A body that is no JSON object is as good as none: whoever sent it is told that it is not right."""
    try:
        read = json.loads(raw or b"{}")
    except ValueError:
        read = None
    body = an_object(read)
    api = api_of(path) if method == "POST" and read is not None else None
    if api is None:
        return Request(method, path, headers, body)
    return Request(
        method,
        path,
        headers,
        body,
        api.name,
        not any(word in path for word in _COUNTING),
        api.streams(path, body),
        len(raw) // BYTES_PER_TOKEN,
        api.read(path, body),
    )


def aside(request: Request, counted: int | None = None) -> Reply:
    """The answer to what asks for no turn. `counted` is what a count of tokens comes to; None: an estimate."""
    if request.method == "HEAD":
        return Reply(kind="text/plain")
    if request.api and not request.is_turn:
        return _whole(APIS[request.api].count(request.tokens if counted is None else counted))
    return _whole({"error": {"code": 404, "message": f"nothing is at {request.path}", "type": "not_found"}}, 404)


def refusal(request: Request) -> Reply | None:
    """The error for a conversation that no provider takes: calls and results have to stand in pairs."""
    missing, strange = request.conversation.unpaired
    api = APIS[request.api]
    return _failed(api, api.unpaired(missing, strange)) if missing or strange else None


def reply_to(request: Request, step: Step) -> Reply:
    """`Hang` has no reply, and is not for here."""
    api = APIS[request.api]
    match step:
        case Fail(status, retry_after, message):
            failure = Failure(status, message or MESSAGES.get(status, "something is wrong"), retry_after)
            is_midway = step.midway and request.is_streaming
            return _broken_by(api, request, failure) if is_midway else _failed(api, failure)
        case TooLong():
            failure = api.too_long(step)
            # This API has said that it begins before it counts.
            is_late = api is RESPONSES and request.is_streaming
            return _broken_by(api, request, failure, is_early=True) if is_late else _failed(api, failure)
        case Drop() | Hang():
            return Reply(is_cut=True)
        case Cut(text):
            return _cut(_answered(api, request, Turn(text)), is_quiet=step.is_quiet)
        case Nonsense():
            return _garbled(_answered(api, request, Turn(_BEGUN)))
        case Empty():
            return _answered(api, request, Turn())
        case _:
            return _answered(api, request, as_turn(step))


def _whole(value: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, pieces=(dumped(value).encode(),), headers=headers or {})


def _failed(api: Api, failure: Failure) -> Reply:
    return _whole(api.error(failure), failure.status, api.headers(failure))


def _answered(api: Api, request: Request, turn: Turn) -> Reply:
    answer = Answer(turn, request)
    if not request.is_streaming:
        return Reply(pieces=(dumped(api.whole(answer)).encode(),), delay=turn.delay)
    events = api.stream(answer)
    if api is GEMINI and "alt=sse" not in request.path:
        starts = ["[", *[",\r\n"] * (len(events) - 1)]
        listed = [(start + dumped(event)).encode() for start, event in zip(starts, events, strict=True)]
        return Reply(pieces=(*listed, b"]"), is_stream=True, delay=turn.delay)
    return Reply(kind=_EVENTS, pieces=tuple(map(api.event, events)), is_stream=True, delay=turn.delay)


def _cut(reply: Reply, *, is_quiet: bool) -> Reply:
    if reply.is_stream:
        pieces = reply.pieces[: (len(reply.pieces) + 1) // 2]
        return Reply(reply.status, reply.kind, pieces, is_stream=True, is_cut=not is_quiet)
    return Reply(reply.status, reply.kind, reply.pieces, is_cut=True)


def _garbled(reply: Reply) -> Reply:
    if not reply.is_stream:
        return Reply(pieces=(b'{"choices": {]nonsense',))
    middle = next(at for at, piece in enumerate(reply.pieces) if _BEGUN.encode() in piece)
    torn = reply.pieces[middle].rstrip()[:-_TORN_OFF]
    return Reply(reply.status, reply.kind, (*reply.pieces[:middle], torn, _GARBAGE), is_stream=True)


def _broken_by(api: Api, request: Request, failure: Failure, *, is_early: bool = False) -> Reply:
    begun = _answered(api, request, as_turn(Say("This answer began well")))
    kept = begun.pieces[: 2 if is_early else len(begun.pieces) // 2]
    return Reply(kind=_EVENTS, pieces=(*kept, api.error_event(failure, len(kept))), is_stream=True)
