"""Anthropic's messages API, and `count_tokens`."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from toolyard.testing.mock_model.requests import (
    AssistantMessage,
    Conversation,
    DeclaredTool,
    Entry,
    Json,
    PastCall,
    ToolOutput,
    UserMessage,
)
from toolyard.testing.mock_model.steps import Call, TooLong
from toolyard.testing.mock_model.wire import (
    ApiError,
    ModelAnswer,
    ProviderApi,
    arguments_text,
    objects_in,
    split_arguments,
    split_words,
    text_of,
)

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP_REASONS = {"length": "max_tokens", "refused": "refusal"}
_SIGNATURE = base64.b64encode(b"a signature of thoughts").decode()


class Anthropic(ProviderApi):
    """Anthropic's messages API."""

    name = "anthropic"

    def parse_conversation(self, path: str, body: Json) -> Conversation:
        del path
        messages = objects_in(body.get("messages"))
        return Conversation(
            body.get("model", ""),
            text_of(body.get("system")),
            tuple(entry for message in messages for entry in _entries(message)),
            tuple(
                DeclaredTool(tool["name"], tool.get("description", ""), tool.get("input_schema", {}))
                for tool in objects_in(body.get("tools"))
            ),
        )

    def token_count_body(self, tokens: int) -> Json:
        return {"input_tokens": tokens}

    def full_response(self, answer: ModelAnswer) -> Json:
        turn, content = answer.turn, list[Json]()
        if turn.thinking:
            content.append({"type": "thinking", "thinking": turn.thinking, "signature": _SIGNATURE})
        if turn.text:
            content.append({"type": "text", "text": turn.text})
        for index, call in enumerate(turn.calls):
            block = _tool_use_block(answer, index)
            content.append(
                {**block, "input": call.arguments if isinstance(call.arguments, str) else {**call.arguments}}
            )
        message = _message(answer, answer.usage.output)
        return {
            **message,
            **_stop_fields(answer),
            "content": content,
            "usage": {**message["usage"], **_thinking_usage(answer)},
        }

    def stream_events(self, answer: ModelAnswer) -> list[Json | str]:
        turn, events = answer.turn, list[Json]()
        if turn.thinking:
            deltas: list[Json] = [
                {"type": "thinking_delta", "thinking": piece} for piece in split_words(turn.thinking)
            ]
            deltas.append({"type": "signature_delta", "signature": _SIGNATURE})
            events += _block_events(0, {"type": "thinking", "thinking": "", "signature": ""}, deltas)
        block_index = 1 if turn.thinking else 0
        if turn.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in split_words(turn.text)]
            events += _block_events(block_index, {"type": "text", "text": ""}, deltas)
            block_index += 1
        for index, call in enumerate(turn.calls):
            events += _block_events(
                block_index + index, {**_tool_use_block(answer, index), "input": {}}, _argument_deltas(call)
            )
        over = {
            "input_tokens": _uncached_tokens(answer),
            "output_tokens": answer.usage.output,
            **_thinking_usage(answer),
        }
        return [
            {"type": "message_start", "message": _message(answer, 1)},
            {"type": "ping"},
            *events,
            {"type": "message_delta", "delta": _stop_fields(answer), "usage": over},
            {"type": "message_stop"},
        ]

    def encode_event(self, item: Json | str) -> bytes:
        kind = item["type"] if isinstance(item, dict) else "message"
        return f"event: {kind}\n".encode() + super().encode_event(item)

    def error_body(self, failure: ApiError) -> Json:
        kind = failure.code or _ERROR_TYPES.get(failure.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": failure.message}, "request_id": "req_scripted"}

    def unpaired_error(self, missing: Sequence[str], strange: Sequence[str]) -> ApiError:
        if missing:
            message = (
                f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. "
            )
            message += "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            return ApiError(400, message)
        message = f"unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(strange)}. "
        message += "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        return ApiError(400, message)

    def too_long_error(self, step: TooLong) -> ApiError:
        return ApiError(400, f"prompt is too long: {step.sent} tokens > {step.limit} maximum")


def _entries(message: Json) -> list[Entry]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects_in(content)
    if message.get("role") == "assistant":
        calls = [block for block in blocks if block["type"] == "tool_use"]
        made = tuple(PastCall(call["id"], call["name"], call["input"]) for call in calls)
        return [AssistantMessage("".join(block["text"] for block in blocks if block["type"] == "text"), made)]
    found: list[Entry] = []
    for block in blocks:
        if block["type"] == "tool_result":
            found.append(ToolOutput(block, text_of(block.get("content")), block["tool_use_id"]))
        elif block["type"] == "text":
            found.append(UserMessage(block["text"]))
    return found


def _argument_deltas(call: Call) -> list[Json]:
    pieces = ["", *split_arguments(arguments_text(call.arguments))]
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _block_events(block_index: int, block: Json, deltas: list[Json]) -> list[Json]:
    return [
        {"type": "content_block_start", "index": block_index, "content_block": block},
        *({"type": "content_block_delta", "index": block_index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": block_index},
    ]


def _tool_use_block(answer: ModelAnswer, index: int) -> Json:
    return {"type": "tool_use", "id": f"toolu_{answer.call_id_suffix(index)}", "name": answer.turn.calls[index].tool}


def _stop_fields(answer: ModelAnswer) -> Json:
    reason = _STOP_REASONS.get(answer.turn.ends, "tool_use" if answer.turn.calls else "end_turn")
    return {"stop_reason": reason, "stop_sequence": None}


def _thinking_usage(answer: ModelAnswer) -> Json:
    thinking = answer.usage.thinking
    return {"output_tokens_details": {"thinking_tokens": thinking}} if thinking else {}


def _uncached_tokens(answer: ModelAnswer) -> int:
    """Returns the input tokens without the cached ones, which this API counts separately."""
    return answer.usage.input - answer.usage.cached


def _message(answer: ModelAnswer, output: int) -> Json:
    usage: Json = {
        "input_tokens": _uncached_tokens(answer),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.usage.cached,
        "output_tokens": output,
        "service_tier": "standard",
    }
    return {
        "id": f"msg_{answer.id_suffix}",
        "type": "message",
        "role": "assistant",
        "model": answer.request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
