"""The official SDKs, each made to take a turn in the same way, so that one suite is run over all of them."""

from __future__ import annotations

import abc
import json
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx2
import openai
from google import genai
from google.genai import errors, types

from toolyard.testing.mock_model import ModelServer

KEY = "the-key-of-the-tests"
NO_CERTIFICATES = {"verify": False}
"""Reading those of the system takes longer than all the rest of a test."""
SYSTEM = "You are a careful tester."
TOOL = {
    "name": "Read",
    "description": "Reads a file.",
    "schema": {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
}


@dataclass(frozen=True)
class Heard:
    """A turn as the SDK tells it."""

    text: str
    thinking: str
    calls: tuple[tuple[str, str, Any], ...]
    """The id, the tool and the arguments: an object where they are one, else as they came."""
    usage: tuple[int, int, int]
    """Input, of that cached, output."""
    ends: str
    pieces: int
    """In how many the text came."""


@dataclass(frozen=True)
class Results:
    """Of the calls of a turn, in order."""

    texts: tuple[str, ...]


History = tuple[str | Heard | Results, ...]
"""What the user said is a text."""


class Sdk(abc.ABC):
    limited: type[Exception]
    broken: type[Exception]
    turned_away: type[Exception]
    gone: tuple[type[Exception], ...]
    """What is raised where the connection ends too early."""
    garbled: tuple[type[Exception], ...]
    ends: dict[str, str]

    def __init__(self, server: ModelServer, model: str = "scripted", key: str = KEY) -> None:
        self.server, self.model, self.key = server, model, key

    @property
    def options(self) -> Any:
        return {"api_key": self.key, "max_retries": 0, "http_client": httpx2.Client(**NO_CERTIFICATES)}

    @abc.abstractmethod
    def ask(self, history: History, *, stream: bool, system: str = SYSTEM) -> Heard: ...

    def wait_of(self, error: Any) -> str:
        """How long the error says to wait."""
        return error.response.headers["retry-after"]


def arguments_of(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


class ChatSdk(Sdk):
    limited, broken, turned_away = openai.RateLimitError, openai.InternalServerError, openai.AuthenticationError
    gone = (openai.APIConnectionError, httpx2.RemoteProtocolError)
    garbled = (json.JSONDecodeError, openai.APIResponseValidationError)
    ends = {"": "stop", "calls": "tool_calls", "length": "length", "refused": "content_filter"}

    def ask(self, history: History, *, stream: bool, system: str = SYSTEM) -> Heard:
        messages: list[Any] = [{"role": "system", "content": system}]
        ids: list[str] = []
        for entry in history:
            if isinstance(entry, str):
                messages.append({"role": "user", "content": entry})
            elif isinstance(entry, Heard):
                ids = [call[0] for call in entry.calls]
                calls = [
                    {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                    for id_, name, arguments in entry.calls
                ]
                message = {"role": "assistant", "content": entry.text or None}
                messages.append({**message, "tool_calls": calls} if calls else message)
            else:
                told = zip(ids, entry.texts, strict=True)
                messages += [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in told]
        function = {"name": TOOL["name"], "description": TOOL["description"], "parameters": TOOL["schema"]}
        asked = {"model": self.model, "messages": messages, "tools": [{"type": "function", "function": function}]}
        with openai.OpenAI(base_url=self.server.openai, **self.options) as client:
            if not stream:
                whole = client.chat.completions.create(**asked)
                message = whole.choices[0].message
                calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
                thinking = getattr(message, "reasoning_content", "")
                return self._heard(message.content, thinking, calls, whole.usage, whole.choices[0].finish_reason, 1)
            return self._streamed(client, asked)

    def _streamed(self, client: openai.OpenAI, asked: Any) -> Heard:
        text, thinking, ends, usage = [], [], "", None
        calls: dict[int, list[str]] = {}
        options: Any = {"include_usage": True}
        for chunk in client.chat.completions.create(**asked, stream=True, stream_options=options):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                ends = choice.finish_reason or ends
                text += [choice.delta.content] if choice.delta.content else []
                thinking.append(getattr(choice.delta, "reasoning_content", None) or "")
                for piece in choice.delta.tool_calls or ():
                    if piece.id:
                        calls[piece.index] = [piece.id, piece.function.name, ""]
                    calls[piece.index][2] += piece.function.arguments
        return self._heard("".join(text), "".join(thinking), list(calls.values()), usage, ends, len(text))

    def _heard(self, text: Any, thinking: str, calls: Any, usage: Any, ends: str, pieces: int) -> Heard:
        found = tuple((id_, name, arguments_of(raw)) for id_, name, raw in calls)
        cached = usage.prompt_tokens_details.cached_tokens
        counted = (usage.prompt_tokens, cached, usage.completion_tokens)
        return Heard(text or "", thinking, found, counted, ends, pieces)


class ResponsesSdk(Sdk):
    limited, broken, turned_away = openai.RateLimitError, openai.InternalServerError, openai.AuthenticationError
    gone = (openai.APIConnectionError, httpx2.RemoteProtocolError)
    garbled = (json.JSONDecodeError, openai.APIResponseValidationError)
    ends = {"": "completed", "calls": "completed", "length": "max_output_tokens", "refused": "content_filter"}

    def ask(self, history: History, *, stream: bool, system: str = SYSTEM) -> Heard:
        sent: list[Any] = []
        ids: list[str] = []
        for entry in history:
            if isinstance(entry, str):
                sent.append({"role": "user", "content": entry})
            elif isinstance(entry, Heard):
                ids = [call[0] for call in entry.calls]
                sent += [{"role": "assistant", "content": entry.text}] if entry.text else []
                for id_, name, arguments in entry.calls:
                    call = {"type": "function_call", "call_id": id_, "name": name}
                    sent.append({**call, "arguments": json.dumps(arguments)})
            else:
                told = zip(ids, entry.texts, strict=True)
                sent += [{"type": "function_call_output", "call_id": id_, "output": text} for id_, text in told]
        tool: Any = {"type": "function", "name": TOOL["name"], "description": TOOL["description"], "strict": False}
        tool["parameters"] = TOOL["schema"]
        asked: Any = {"model": self.model, "input": sent, "tools": [tool], "instructions": system}
        with openai.OpenAI(base_url=self.server.openai, **self.options) as client:
            if not stream:
                return self._heard(client.responses.create(**asked), 1)
            whole, text, arguments = None, [], ""
            for event in client.responses.create(**asked, stream=True):
                text += [event.delta] if event.type == "response.output_text.delta" else []
                arguments += event.delta if event.type == "response.function_call_arguments.delta" else ""
                whole = event.response if event.type in {"response.completed", "response.incomplete"} else whole
            if whole is None:
                raise openai.APIError("the stream ended too early", None, body=None)
            heard = self._heard(whole, len(text))
            assert "".join(text) == heard.text
            assert arguments == "".join(item.arguments for item in whole.output if item.type == "function_call")
            return heard

    def _heard(self, whole: Any, pieces: int) -> Heard:
        calls = [item for item in whole.output if item.type == "function_call"]
        thoughts = [part.text for item in whole.output if item.type == "reasoning" for part in item.summary]
        ends = whole.incomplete_details.reason if whole.incomplete_details else whole.status
        usage = (whole.usage.input_tokens, whole.usage.input_tokens_details.cached_tokens, whole.usage.output_tokens)
        found = tuple((call.call_id, call.name, arguments_of(call.arguments)) for call in calls)
        return Heard(whole.output_text, "".join(thoughts), found, usage, ends, pieces)


class AnthropicSdk(Sdk):
    limited, broken = anthropic.RateLimitError, anthropic.InternalServerError
    turned_away = anthropic.AuthenticationError
    gone = (anthropic.APIConnectionError, httpx2.RemoteProtocolError)
    garbled = (json.JSONDecodeError, anthropic.APIResponseValidationError)
    ends = {"": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}

    def ask(self, history: History, *, stream: bool, system: str = SYSTEM) -> Heard:
        messages: list[Any] = []
        ids: list[str] = []
        for entry in history:
            if isinstance(entry, str):
                messages.append({"role": "user", "content": entry})
            elif isinstance(entry, Heard):
                ids = [call[0] for call in entry.calls]
                content: list[Any] = [{"type": "text", "text": entry.text}] if entry.text else []
                content += [{"type": "tool_use", "id": c[0], "name": c[1], "input": c[2]} for c in entry.calls]
                messages.append({"role": "assistant", "content": content})
            else:
                told = zip(ids, entry.texts, strict=True)
                results = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in told]
                messages.append({"role": "user", "content": results})
        tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["schema"]}
        asked: Any = {"model": self.model, "messages": messages, "tools": [tool], "system": system, "max_tokens": 99}
        with anthropic.Anthropic(base_url=self.server.anthropic, **self.options) as client:
            if stream:
                return self._streamed(client, asked)
            whole = client.messages.create(**asked)
            text = "".join(block.text for block in whole.content if block.type == "text")
            thinking = "".join(block.thinking for block in whole.content if block.type == "thinking")
            calls = [(block.id, block.name, block.input) for block in whole.content if block.type == "tool_use"]
            return self._heard(text, thinking, calls, whole.usage, whole.usage.output_tokens, whole.stop_reason, 1)

    def _streamed(self, client: anthropic.Anthropic, asked: Any) -> Heard:
        text, thinking, calls, usage, output, ends = [], "", {}, None, 0, None
        for event in client.messages.create(**asked, stream=True):
            if event.type == "message_start":
                usage = event.message.usage
            elif event.type == "content_block_start" and event.content_block.type == "tool_use":
                calls[event.index] = [event.content_block.id, event.content_block.name, ""]
            elif event.type == "content_block_delta":
                text += [event.delta.text] if event.delta.type == "text_delta" else []
                thinking += event.delta.thinking if event.delta.type == "thinking_delta" else ""
                if event.delta.type == "input_json_delta":
                    calls[event.index][2] += event.delta.partial_json
            elif event.type == "message_delta":
                ends, output = event.delta.stop_reason, event.usage.output_tokens
        found = [(id_, name, arguments_of(raw)) for id_, name, raw in calls.values()]
        return self._heard("".join(text), thinking, found, usage, output, ends, len(text))

    def _heard(self, text: str, thinking: str, calls: Any, usage: Any, output: int, ends: Any, pieces: int) -> Heard:
        cached = usage.cache_read_input_tokens
        return Heard(text, thinking, tuple(calls), (usage.input_tokens + cached, cached, output), ends, pieces)


class GeminiSdk(Sdk):
    limited, broken, turned_away = errors.ClientError, errors.ServerError, errors.ClientError
    gone, garbled = (httpx2.TransportError,), (errors.UnknownApiResponseError, json.JSONDecodeError)
    ends = {"": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}

    def ask(self, history: History, *, stream: bool, system: str = SYSTEM) -> Heard:
        contents: list[types.Content] = []
        calls: list[types.FunctionCall] = []
        for entry in history:
            if isinstance(entry, str):
                contents.append(types.Content(role="user", parts=[types.Part(text=entry)]))
            elif isinstance(entry, Heard):
                calls = [types.FunctionCall(id=id_, name=name, args=args) for id_, name, args in entry.calls]
                parts = [types.Part(text=entry.text)] if entry.text else []
                parts += [types.Part(function_call=call) for call in calls]
                contents.append(types.Content(role="model", parts=parts))
            else:
                told = zip(calls, entry.texts, strict=True)
                responses = [
                    types.FunctionResponse(id=call.id, name=call.name, response={"output": text})
                    for call, text in told
                ]
                parts = [types.Part(function_response=response) for response in responses]
                contents.append(types.Content(role="user", parts=parts))
        declared = types.FunctionDeclaration(
            name=TOOL["name"], description=TOOL["description"], parameters_json_schema=TOOL["schema"]
        )
        configured = types.GenerateContentConfig(
            system_instruction=system,
            tools=[types.Tool(function_declarations=[declared])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        asked: Any = {"model": self.model, "contents": contents, "config": configured}
        reached = types.HttpOptions(base_url=self.server.gemini, client_args=NO_CERTIFICATES)
        client = genai.Client(api_key=self.key, http_options=reached)
        try:
            models = client.models
            return _of_gemini(
                list(models.generate_content_stream(**asked)) if stream else [models.generate_content(**asked)]
            )
        finally:
            client.close()

    def wait_of(self, error: Any) -> str:
        return error.details["error"]["details"][0]["retryDelay"].removesuffix("s")


def _of_gemini(chunks: list[types.GenerateContentResponse]) -> Heard:
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    text = [part.text for part in parts if part.text and not part.thought]
    thinking = "".join(part.text for part in parts if part.text and part.thought)
    called = [part.function_call for part in parts if part.function_call]
    usage, reason = chunks[-1].usage_metadata, chunks[-1].candidates[0].finish_reason
    output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    counted = (usage.prompt_token_count, usage.cached_content_token_count or 0, output)
    calls = tuple((call.id, call.name, call.args) for call in called)
    return Heard("".join(text), thinking, calls, counted, reason.value if reason else "", len(text))


SDKS: dict[str, type[Sdk]] = {
    "gemini": GeminiSdk,
    "chat": ChatSdk,
    "responses": ResponsesSdk,
    "anthropic": AnthropicSdk,
}
