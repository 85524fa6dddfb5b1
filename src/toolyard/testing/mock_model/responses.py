"""OpenAI's responses API. Tools may be in a namespace, as Codex sends those of MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolyard.testing.mock_model.chat import CREATED, OpenAi
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
from toolyard.testing.mock_model.steps import TooLong
from toolyard.testing.mock_model.wire import (
    ApiError,
    ModelAnswer,
    arguments_text,
    objects_in,
    split_arguments,
    split_words,
    text_of,
)

_NAMESPACE_SEPARATOR = "__"
"""Between a namespace and a tool's name, in the names that scripts and requests use."""


class Responses(OpenAi):
    """OpenAI's responses API."""

    name = "responses"

    def parse_conversation(self, path: str, body: Json) -> Conversation:
        del path
        sent = body.get("input")
        given: Any = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
        found = objects_in(given)
        system = [body.get("instructions") or ""]
        system += [text_of(each.get("content")) for each in found if each.get("role") in {"system", "developer"}]
        return Conversation(
            body.get("model", ""),
            "\n\n".join(text for text in system if text),
            tuple(entry for item in found for entry in _entries(item)),
            tuple(tool for each in objects_in(body.get("tools")) for tool in _tools(each)),
        )

    def full_response(self, answer: ModelAnswer) -> Json:
        return _response(answer, "completed", [_completed_item(answer, item) for item in _output_items(answer)])

    def stream_events(self, answer: ModelAnswer) -> list[Json | str]:
        begun = _response(answer, "in_progress", [])
        events: list[Json] = [{"type": "response.created", "response": begun}]
        events.append({"type": "response.in_progress", "response": begun})
        output = _output_items(answer)
        for output_index, item in enumerate(output):
            events += _item_events(answer, item, output_index)
        whole = _response(answer, "completed", [_completed_item(answer, item) for item in output])
        events.append({"type": f"response.{whole['status']}", "response": whole})
        return [{**event, "sequence_number": number} for number, event in enumerate(events)]

    def encode_event(self, item: Json | str) -> bytes:
        kind = item["type"] if isinstance(item, dict) else "message"
        return f"event: {kind}\n".encode() + super().encode_event(item)

    def encode_error_event(self, failure: ApiError, number: int) -> bytes:
        error: Json = self.error_body(failure)["error"]
        return self.encode_event({"type": "error", "sequence_number": number, "error": error})

    def unpaired_error(self, missing: Sequence[str], strange: Sequence[str]) -> ApiError:
        if missing:
            return ApiError(400, f"No tool output found for function call {missing[0]}.")
        return ApiError(400, f"No tool call found for function call output with call_id {strange[0]}.")

    def too_long_error(self, step: TooLong) -> ApiError:
        del step
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return ApiError(400, message, code="context_length_exceeded")


def _entries(item: Json) -> list[Entry]:
    match item.get("type", "message"), item.get("role"):
        case "message", "user":
            return [UserMessage(text_of(item.get("content")))]
        case "message", "assistant":
            return [AssistantMessage(text_of(item.get("content")))]
        case "function_call", _:
            inside = item.get("namespace")
            name = f"{inside}{_NAMESPACE_SEPARATOR}{item['name']}" if inside else item["name"]
            return [AssistantMessage(calls=(PastCall(item["call_id"], name, item["arguments"]),))]
        case "function_call_output", _:
            return [ToolOutput(item["output"], text_of(item["output"]), item["call_id"])]
        case _:
            return []


def _tools(offered: Json) -> list[DeclaredTool]:
    if offered.get("type") == "namespace":
        inner = [tool for each in objects_in(offered.get("tools")) for tool in _tools(each)]
        return [
            DeclaredTool(f"{offered['name']}{_NAMESPACE_SEPARATOR}{each.name}", each.description, each.schema)
            for each in inner
        ]
    name = offered.get("name") or offered.get("type", "")
    return [DeclaredTool(name, offered.get("description", ""), offered.get("parameters") or {})]


def _namespaces(answer: ModelAnswer) -> list[str]:
    offered = objects_in(answer.request.body.get("tools"))
    return [tool["name"] for tool in offered if tool.get("type") == "namespace"]


def _output_items(answer: ModelAnswer) -> list[Json]:
    """Returns the items of the answer in their initial state."""
    turn, found = answer.turn, list[Json]()
    if turn.thinking:
        found.append({"type": "reasoning", "id": f"rs_{answer.id_suffix}", "summary": []})
    if turn.text:
        found.append(
            {
                "type": "message",
                "id": f"msg_{answer.id_suffix}",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
        )
    for index, call in enumerate(turn.calls):
        mark = answer.call_id_suffix(index)
        item: Json = {"type": "function_call", "id": f"fc_{mark}", "call_id": f"call_{mark}", "name": call.tool}
        for namespace in _namespaces(answer):
            if call.tool.startswith(namespace + _NAMESPACE_SEPARATOR):
                item |= {"name": call.tool.removeprefix(namespace + _NAMESPACE_SEPARATOR), "namespace": namespace}
        found.append({**item, "arguments": "", "status": "in_progress"})
    return found


def _completed_item(answer: ModelAnswer, item: Json) -> Json:
    """Returns an item in its final state."""
    match item["type"]:
        case "reasoning":
            return {**item, "summary": [{"type": "summary_text", "text": answer.turn.thinking}]}
        case "message":
            content: Json = {"type": "output_text", "text": answer.turn.text, "annotations": [], "logprobs": []}
            return {**item, "status": "completed", "content": [content]}
        case _:
            return {**item, "status": "completed", "arguments": _arguments(answer, item)}


def _arguments(answer: ModelAnswer, item: Json) -> str:
    calls = {f"call_{answer.call_id_suffix(index)}": call for index, call in enumerate(answer.turn.calls)}
    return arguments_text(calls[item["call_id"]].arguments)


def _item_events(answer: ModelAnswer, item: Json, output_index: int) -> list[Json]:
    done = _completed_item(answer, item)
    at: Json = {"item_id": item["id"], "output_index": output_index}
    match item["type"]:
        case "reasoning":
            within = {**at, "summary_index": 0}
            events = _summary_events(answer.turn.thinking, within, done["summary"][0])
        case "message":
            within = {**at, "content_index": 0}
            events = _text_events(answer.turn.text, within, done["content"][0])
        case _:
            kind, text = "response.function_call_arguments", done["arguments"]
            events = [{"type": f"{kind}.delta", **at, "delta": piece} for piece in split_arguments(text)]
            events.append({"type": f"{kind}.done", **at, "name": item["name"], "arguments": text})
    return [
        {"type": "response.output_item.added", "output_index": output_index, "item": item},
        *events,
        {"type": "response.output_item.done", "output_index": output_index, "item": done},
    ]


def _summary_events(text: str, within: Json, part: Json) -> list[Json]:
    kind = "response.reasoning_summary"
    return [
        {"type": f"{kind}_part.added", **within, "part": {**part, "text": ""}},
        *({"type": f"{kind}_text.delta", **within, "delta": piece} for piece in split_words(text)),
        {"type": f"{kind}_text.done", **within, "text": text},
        {"type": f"{kind}_part.done", **within, "part": part},
    ]


def _text_events(text: str, within: Json, part: Json) -> list[Json]:
    return [
        {"type": "response.content_part.added", **within, "part": {**part, "text": ""}},
        *(
            {"type": "response.output_text.delta", **within, "delta": piece, "logprobs": []}
            for piece in split_words(text)
        ),
        {"type": "response.output_text.done", **within, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **within, "part": part},
    ]


def _response(answer: ModelAnswer, status: str, output: list[Json]) -> Json:
    usage, why = answer.usage, {"length": "max_output_tokens", "refused": "content_filter"}.get(answer.turn.ends)
    is_over = status == "completed"
    counted = {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": usage.input + usage.output,
    }
    return {
        "id": f"resp_{answer.id_suffix}",
        "object": "response",
        "created_at": CREATED,
        "status": "incomplete" if why and is_over else status,
        "error": None,
        "incomplete_details": {"reason": why} if why and is_over else None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": answer.request.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": counted if is_over else None,
        "user": None,
    }
