"""The Gemini API: `generateContent`, `streamGenerateContent` (events, or one array) and `countTokens`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from toolyard.testing.mock_model.requests import (
    AssistantMessage,
    Conversation,
    DeclaredTool,
    Entry,
    Json,
    PastCall,
    ToolOutput,
    UserMessage,
    as_object,
)
from toolyard.testing.mock_model.steps import TooLong
from toolyard.testing.mock_model.wire import (
    ApiError,
    ModelAnswer,
    ProviderApi,
    objects_in,
    split_words,
    text_of,
    to_json,
)

_ERROR_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_FINISH_REASONS = {"": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY", "malformed": "MALFORMED_FUNCTION_CALL"}
_RESULT_KEYS = ("output", "error", "result", "return_value")
_SIGNATURE = base64.b64encode(b"a signature of thoughts").decode()
_MODEL = re.compile(r"models/([^/:?]+):")


class Gemini(ProviderApi):
    """The Gemini API."""

    name = "gemini"
    event_separator: ClassVar[bytes] = b"\r\n\r\n"

    def parse_conversation(self, path: str, body: Json) -> Conversation:
        named = _MODEL.search(path)
        entries = [entry for content in objects_in(body.get("contents")) for entry in _entries(content)]
        declared = [
            each for tool in objects_in(body.get("tools")) for each in objects_in(tool.get("functionDeclarations"))
        ]
        return Conversation(
            named[1] if named else "",
            text_of(as_object(body.get("systemInstruction")).get("parts")),
            tuple(entries),
            tuple(_tool(each) for each in declared),
        )

    def is_streaming(self, path: str, body: Json) -> bool:
        del body
        return ":streamGenerateContent" in path

    def token_count_body(self, tokens: int) -> Json:
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}

    def full_response(self, answer: ModelAnswer) -> Json:
        turn = answer.turn
        parts: list[Json] = [{"text": turn.thinking, "thought": True}] if turn.thinking else []
        parts += [{"text": turn.text}] if turn.text else []
        return _response(answer, _with_signature(answer, parts + _call_parts(answer)), is_last=True)

    def stream_events(self, answer: ModelAnswer) -> list[Json | str]:
        turn = answer.turn
        parts: list[Json] = [{"text": piece, "thought": True} for piece in split_words(turn.thinking)]
        parts += [{"text": piece} for piece in split_words(turn.text)]
        parts += _call_parts(answer)
        pieces = [[part] for part in _with_signature(answer, parts)] or [[]]
        return [_response(answer, piece, is_last=piece is pieces[-1]) for piece in pieces]

    def error_body(self, failure: ApiError) -> Json:
        kind = failure.code or _ERROR_STATUSES.get(failure.status, "UNKNOWN")
        error: Json = {"code": failure.status, "message": failure.message, "status": kind}
        if failure.retry_after is not None:
            delay = f"{failure.retry_after:g}s"
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
        return {"error": error}

    def error_headers(self, failure: ApiError) -> dict[str, str]:
        """Returns no headers: the retry delay is part of the error body."""
        del failure
        return {}

    def unpaired_error(self, missing: Sequence[str], strange: Sequence[str]) -> ApiError:
        del strange
        if missing:
            words = "the number of function response parts is equal to the number of function call parts of the "
            return ApiError(400, f"Please ensure that {words}function call turn.")
        return ApiError(
            400, "Please ensure that function response turn comes immediately after a function call turn."
        )

    def too_long_error(self, step: TooLong) -> ApiError:
        exceeds = f"exceeds the maximum number of tokens allowed ({step.limit})."
        return ApiError(400, f"The input token count ({step.sent}) {exceeds}")


def _entries(content: Json) -> list[Entry]:
    parts = objects_in(content.get("parts"))
    if content.get("role") == "model":
        called = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = tuple(PastCall(call.get("id") or "", call["name"], call.get("args")) for call in called)
        return [AssistantMessage("".join(part.get("text", "") for part in parts if not part.get("thought")), calls)]
    found: list[Entry] = []
    for part in parts:
        if "functionResponse" in part:
            response = as_object(part["functionResponse"].get("response"))
            found.append(ToolOutput(response, _result_text(response)))
        elif "text" in part:
            found.append(UserMessage(part["text"]))
    return found


def _result_text(response: Json) -> str:
    held: Any = next((response[key] for key in _RESULT_KEYS if response.get(key)), response or "")
    return held if isinstance(held, str) else json.dumps(held, ensure_ascii=False)


def _tool(declared: Json) -> DeclaredTool:
    spellings = ("parametersJsonSchema", "parameters_json_schema", "parameters")  # the API accepts all of them
    schema = as_object(next((declared[key] for key in spellings if declared.get(key)), None))
    return DeclaredTool(declared["name"], declared.get("description", ""), schema)


def _call_parts(answer: ModelAnswer) -> list[Json]:
    found: list[Json] = []
    for index, call in enumerate(answer.turn.calls):
        function: Json = {"id": f"call_{answer.call_id_suffix(index)}", "name": call.tool}
        if not isinstance(call.arguments, str):
            function["args"] = dict(call.arguments)
        found.append({"functionCall": function})
    return found


def _with_signature(answer: ModelAnswer, parts: list[Json]) -> list[Json]:
    """Adds the signature of a thinking model to the first call, or to the last text part."""
    if not answer.turn.thinking:
        return parts
    calls = [at for at, part in enumerate(parts) if "functionCall" in part]
    signed = calls[0] if calls else len(parts) - 1
    return [{**part, "thoughtSignature": _SIGNATURE} if at == signed else part for at, part in enumerate(parts)]


def _response(answer: ModelAnswer, parts: list[Json], *, is_last: bool) -> Json:
    usage, reason = answer.usage, _FINISH_REASONS[answer.turn.ends]
    candidate: Json = {"content": {"role": "model", **({"parts": parts} if parts else {})}, "index": 0}
    if is_last:
        candidate["finishReason"] = reason
    if is_last and answer.turn.ends == "malformed":
        candidate["finishMessage"] = f"Malformed function call: print(default_api.{to_json(answer.turn.text)}"
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
        "responseId": f"response_{answer.id_suffix}",
    }
