"""The API of Gemini: `generateContent`, `streamGenerateContent` (events, or one array), `countTokens`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from toolyard.testing.mock_model.requests import (
    Asked,
    Conversation,
    Entry,
    Json,
    Made,
    Shown,
    Spoke,
    Tool,
    an_object,
)
from toolyard.testing.mock_model.steps import TooLong
from toolyard.testing.mock_model.wire import Answer, Api, Failure, dumped, items, text_of, words

_KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_REASONS = {"": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY", "malformed": "MALFORMED_FUNCTION_CALL"}
_RESULT_KEYS = ("output", "error", "result", "return_value")
_SIGNATURE = base64.b64encode(b"a signature of thoughts").decode()
_MODEL = re.compile(r"models/([^/:?]+):")


class Gemini(Api):
    name = "gemini"
    breaks: ClassVar[bytes] = b"\r\n\r\n"

    def read(self, path: str, body: Json) -> Conversation:
        named = _MODEL.search(path)
        entries = [entry for content in items(body.get("contents")) for entry in _entries(content)]
        declared = [each for tool in items(body.get("tools")) for each in items(tool.get("functionDeclarations"))]
        return Conversation(
            named[1] if named else "",
            text_of(an_object(body.get("systemInstruction")).get("parts")),
            tuple(entries),
            tuple(_tool(each) for each in declared),
        )

    def streams(self, path: str, body: Json) -> bool:
        del body
        return ":streamGenerateContent" in path

    def count(self, tokens: int) -> Json:
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}

    def whole(self, answer: Answer) -> Json:
        turn = answer.turn
        parts: list[Json] = [{"text": turn.thinking, "thought": True}] if turn.thinking else []
        parts += [{"text": turn.text}] if turn.text else []
        return _response(answer, _signed(answer, parts + _calls(answer)), is_last=True)

    def stream(self, answer: Answer) -> list[Json | str]:
        turn = answer.turn
        parts: list[Json] = [{"text": piece, "thought": True} for piece in words(turn.thinking)]
        parts += [{"text": piece} for piece in words(turn.text)]
        parts += _calls(answer)
        pieces = [[part] for part in _signed(answer, parts)] or [[]]
        return [_response(answer, piece, is_last=piece is pieces[-1]) for piece in pieces]

    def error(self, failure: Failure) -> Json:
        kind = failure.code or _KINDS.get(failure.status, "UNKNOWN")
        error: Json = {"code": failure.status, "message": failure.message, "status": kind}
        if failure.retry_after is not None:
            delay = f"{failure.retry_after:g}s"
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
        return {"error": error}

    def headers(self, failure: Failure) -> dict[str, str]:
        """None: when to come again is in the error itself."""
        del failure
        return {}

    def unpaired(self, missing: Sequence[str], strange: Sequence[str]) -> Failure:
        del strange
        if missing:
            words = "the number of function response parts is equal to the number of function call parts of the "
            return Failure(400, f"Please ensure that {words}function call turn.")
        return Failure(400, "Please ensure that function response turn comes immediately after a function call turn.")

    def too_long(self, step: TooLong) -> Failure:
        exceeds = f"exceeds the maximum number of tokens allowed ({step.limit})."
        return Failure(400, f"The input token count ({step.sent}) {exceeds}")


def _entries(content: Json) -> list[Entry]:
    parts = items(content.get("parts"))
    if content.get("role") == "model":
        called = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = tuple(Made(call.get("id") or "", call["name"], call.get("args")) for call in called)
        return [Spoke("".join(part.get("text", "") for part in parts if not part.get("thought")), calls)]
    found: list[Entry] = []
    for part in parts:
        if "functionResponse" in part:
            response = an_object(part["functionResponse"].get("response"))
            found.append(Shown(response, _words_of(response)))
        elif "text" in part:
            found.append(Asked(part["text"]))
    return found


def _words_of(response: Json) -> str:
    held: Any = next((response[key] for key in _RESULT_KEYS if response.get(key)), response or "")
    return held if isinstance(held, str) else json.dumps(held, ensure_ascii=False)


def _tool(declared: Json) -> Tool:
    spellings = ("parametersJsonSchema", "parameters_json_schema", "parameters")  # the API takes them all
    schema = an_object(next((declared[key] for key in spellings if declared.get(key)), None))
    return Tool(declared["name"], declared.get("description", ""), schema)


def _calls(answer: Answer) -> list[Json]:
    found: list[Json] = []
    for index, call in enumerate(answer.turn.calls):
        function: Json = {"id": f"call_{answer.call_mark(index)}", "name": call.tool}
        if not isinstance(call.arguments, str):
            function["args"] = dict(call.arguments)
        found.append({"functionCall": function})
    return found


def _signed(answer: Answer, parts: list[Json]) -> list[Json]:
    """With the signature that a model which thinks puts on its first call, or on the last part of its text."""
    if not answer.turn.thinking:
        return parts
    calls = [at for at, part in enumerate(parts) if "functionCall" in part]
    place = calls[0] if calls else len(parts) - 1
    return [{**part, "thoughtSignature": _SIGNATURE} if at == place else part for at, part in enumerate(parts)]


def _response(answer: Answer, parts: list[Json], *, is_last: bool) -> Json:
    usage, reason = answer.usage, _REASONS[answer.turn.ends]
    candidate: Json = {"content": {"role": "model", **({"parts": parts} if parts else {})}, "index": 0}
    if is_last:
        candidate["finishReason"] = reason
    if is_last and answer.turn.ends == "malformed":
        candidate["finishMessage"] = f"Malformed function call: print(default_api.{dumped(answer.turn.text)}"
    counted: Json = {"promptTokenCount": usage.input, "totalTokenCount": usage.input + usage.output}
    counted["candidatesTokenCount"] = usage.output - usage.thinking
    if usage.thinking:
        counted["thoughtsTokenCount"] = usage.thinking
    if usage.cached:
        counted["cachedContentTokenCount"] = usage.cached
    return {
        "candidates": [candidate],
        "usageMetadata": counted,
        "modelVersion": answer.request.model,
        "responseId": f"response_{answer.mark}",
    }
