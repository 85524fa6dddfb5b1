"""OpenAI's chat completions API, which many other servers implement."""

from __future__ import annotations

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
    as_object,
)
from toolyard.testing.mock_model.steps import TooLong
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

_FINISH_REASONS = {"length": "length", "refused": "content_filter"}
ERROR_TYPES = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", "server_error"),
    503: ("service_unavailable_error", "service_unavailable"),
}
"""Type and code of an error, by HTTP status."""
CREATED = 1_760_000_000


class OpenAi(ProviderApi):
    """The parts that both OpenAI APIs share."""

    def error_body(self, failure: ApiError) -> Json:
        kind, code = ERROR_TYPES.get(failure.status, ("server_error", None))
        return {
            "error": {"message": failure.message, "type": kind, "param": None, "code": failure.code or code},
        }

    def error_headers(self, failure: ApiError) -> dict[str, str]:
        if failure.retry_after is None:
            return {}
        return {"retry-after": f"{failure.retry_after:g}", "retry-after-ms": f"{failure.retry_after * 1000:g}"}


class Chat(OpenAi):
    """OpenAI's chat completions API."""

    name = "chat"

    def parse_conversation(self, path: str, body: Json) -> Conversation:
        del path
        messages = objects_in(body.get("messages"))
        system = [text_of(each.get("content")) for each in messages if each["role"] in {"system", "developer"}]
        functions = [tool["function"] for tool in objects_in(body.get("tools")) if "function" in tool]
        return Conversation(
            body.get("model", ""),
            "\n\n".join(system),
            tuple(entry for message in messages for entry in _entries(message)),
            tuple(
                DeclaredTool(each["name"], each.get("description", ""), each.get("parameters", {}))
                for each in functions
            ),
        )

    def full_response(self, answer: ModelAnswer) -> Json:
        turn = answer.turn
        message: Json = {"role": "assistant", "content": turn.text or None, "refusal": None}
        if turn.thinking:
            message["reasoning_content"] = turn.thinking
        if turn.calls:
            message["tool_calls"] = [
                {**_tool_call(answer, index), "type": "function"} for index in range(len(turn.calls))
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
        return {**_common_fields(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}

    def stream_events(self, answer: ModelAnswer) -> list[Json | str]:
        deltas: list[Json] = [{"role": "assistant", "content": "" if answer.turn.text else None, "refusal": None}]
        deltas += [{"reasoning_content": piece} for piece in split_words(answer.turn.thinking)]
        deltas += [{"content": piece} for piece in split_words(answer.turn.text)]
        for index in range(len(answer.turn.calls)):
            call = _tool_call(answer, index)
            arguments = call["function"]["arguments"]
            begun = {"name": call["function"]["name"], "arguments": ""}
            deltas.append({"tool_calls": [{"index": index, **call, "type": "function", "function": begun}]})
            for piece in split_arguments(arguments):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        head = _common_fields(answer, "chat.completion.chunk")
        wants_usage = bool(as_object(answer.request.body.get("stream_options")).get("include_usage"))
        none: Json = {"usage": None} if wants_usage else {}
        chunks: list[Json | str] = [{**head, "choices": [_choice(delta, None)], **none} for delta in deltas]
        chunks.append({**head, "choices": [_choice({}, _finish_reason(answer))], **none})
        if wants_usage:
            chunks.append({**head, "choices": [], "usage": _usage(answer)})
        return [*chunks, "[DONE]"]

    def unpaired_error(self, missing: Sequence[str], strange: Sequence[str]) -> ApiError:
        del strange
        if missing:
            message = "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            message += "'tool_call_id'. The following tool_call_ids did not have response messages: "
            return ApiError(400, message + ", ".join(missing))
        message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
        return ApiError(400, message + "'tool_calls'.")

    def too_long_error(self, step: TooLong) -> ApiError:
        message = f"This model's maximum context length is {step.limit} tokens. However, your messages resulted in "
        message += f"{step.sent} tokens. Please reduce the length of the messages."
        return ApiError(400, message, code="context_length_exceeded")


def _entries(message: Json) -> list[Entry]:
    content = message.get("content")
    match message["role"]:
        case "user":
            return [UserMessage(text_of(content))]
        case "tool":
            return [ToolOutput(content, text_of(content), message["tool_call_id"])]
        case "assistant":
            calls = [(each["id"], each["function"]) for each in objects_in(message.get("tool_calls"))]
            return [
                AssistantMessage(
                    text_of(content), tuple(PastCall(id_, it["name"], it["arguments"]) for id_, it in calls)
                )
            ]
        case _:
            return []


def _common_fields(answer: ModelAnswer, kind: str) -> Json:
    return {"id": f"chatcmpl-{answer.id_suffix}", "object": kind, "created": CREATED, "model": answer.request.model}


def _choice(delta: Json, reason: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _finish_reason(answer: ModelAnswer) -> str:
    return _FINISH_REASONS.get(answer.turn.ends, "tool_calls" if answer.turn.calls else "stop")


def _tool_call(answer: ModelAnswer, index: int) -> Json:
    call = answer.turn.calls[index]
    function = {"name": call.tool, "arguments": arguments_text(call.arguments)}
    return {"id": f"call_{answer.call_id_suffix(index)}", "function": function}


def _usage(answer: ModelAnswer) -> Json:
    usage = answer.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.thinking, "audio_tokens": 0},
    }
