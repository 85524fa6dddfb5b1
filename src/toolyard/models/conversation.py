"""A conversation between a caller and a model, in the alternating order that providers require.

What the caller says (a question, results of calls) alternates with what the model answers. Every tool call is
answered before anything else is said; `pending_calls` names those without a result, as after a crash. Parts that only
the provider understands (signatures of its thinking) stay in place: without them it would refuse the history.

A message is never modified, only replaced, so its token estimate and its serialized bytes are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from toolyard.core.errors import SystemFault
from toolyard.models.messages import ModelToolCall, ModelToolResult
from toolyard.models.sanitize import repair_surrogates
from toolyard.models.token_estimate import message_tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart

_SUPPORTED_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that every provider accepts."""


class Conversation:
    """Messages between a caller and a model, with their token estimates."""

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._sizes: list[int] = []
        self._serialized: list[bytes] = []
        """The first messages as JSON; later messages have not been serialized yet."""

    @classmethod
    def from_turns(cls, turns: Iterable[tuple[str, str]]) -> Conversation:
        """Builds a conversation from earlier turns, each a question and its answer.

        A question without an answer is joined with the question that follows it.
        """
        conversation = cls()
        from pydantic_ai.messages import ModelResponse, TextPart

        for question, answer in turns:
            conversation.add_question(question)
            if answer.strip():
                conversation.add_response(ModelResponse(parts=[TextPart(repair_surrogates(answer))]))
        return conversation

    @classmethod
    def load(cls, data: bytes) -> Conversation:
        """Reads what `dump` wrote. Raises SystemFault for damaged data or another format version."""
        conversation = cls()
        from pydantic import ValidationError
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        try:
            conversation.replace_messages(ModelMessagesTypeAdapter.validate_json(data))
        except ValidationError:
            raise SystemFault(
                "A stored conversation cannot be read: it is damaged, or from another version.",
                hint="Start the agent again.",
            ) from None
        return conversation

    def dump(self) -> bytes:
        """Serializes the conversation as JSON."""
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        # The whole conversation is stored after each turn: serializing all of it again would cost more every time.
        for message in self._messages[len(self._serialized) :]:
            self._serialized.append(ModelMessagesTypeAdapter.dump_json([message])[1:-1])
        return b"[%b]" % b",".join(self._serialized)

    def add_question(self, text: str) -> None:
        """Adds a text of the user."""
        from pydantic_ai.messages import UserPromptPart

        if self.pending_calls:
            raise ValueError("calls of the model have no results yet")
        self._append_request([UserPromptPart(repair_surrogates(text))])

    def add_tool_results(self, answers: Sequence[ModelToolResult]) -> None:
        """Adds results of tool calls: each of `pending_calls` once, all together or in several steps."""
        open_ids = {call.id for call in self.pending_calls}
        ids = [each.call.id for each in answers]
        if len(set(ids)) != len(ids) or not open_ids.issuperset(ids):
            raise ValueError("a result for a call that is not pending")
        if answers:
            self._append_request([_tool_return_part(each) for each in answers])

    @property
    def pending_calls(self) -> tuple[ModelToolCall, ...]:
        """The calls of the last response that have no result yet."""
        answered: set[str] = set()
        for message in reversed(self._messages):
            if message.kind == "response":
                return tuple(
                    parse_tool_call(call) for call in message.tool_calls if call.tool_call_id not in answered
                )
            answered.update(part.tool_call_id for part in message.parts if part.part_kind == "tool-return")
        return ()

    @property
    def is_complete(self) -> bool:
        """Whether the last message is an answer of the model without open calls."""
        return bool(self._messages) and self._messages[-1].kind == "response" and not self.pending_calls

    @property
    def last_text(self) -> str:
        """The text of the last answer; empty if it has none."""
        for message in reversed(self._messages):
            if message.kind == "response":
                return message.text or ""
        return ""

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of all messages."""
        return sum(self._sizes)

    def __len__(self) -> int:
        return len(self._messages)

    # The following is for this package only: the messages are objects of pydantic-ai.

    @property
    def messages(self) -> list[ModelMessage]:
        """The messages as they are sent. Must not be modified."""
        return self._messages

    @property
    def sizes(self) -> Sequence[int]:
        """The estimated tokens of each message."""
        return self._sizes

    def add_response(self, response: ModelResponse) -> tuple[ModelToolCall, ...]:
        """Appends an answer of the model; returns the calls that it asks for."""
        response = _with_unique_call_ids(response)
        self._messages.append(response)
        self._sizes.append(message_tokens(response))
        return tuple(parse_tool_call(call) for call in response.tool_calls)

    def replace_messages(self, messages: Iterable[ModelMessage]) -> None:
        """Replaces all messages; estimates and serialized bytes of unchanged ones are reused."""
        known = {id(message): size for message, size in zip(self._messages, self._sizes, strict=True)}
        before, self._messages = self._messages, list(messages)
        same = takewhile(lambda pair: pair[0] is pair[1], zip(before, self._messages, strict=False))
        del self._serialized[sum(1 for _ in same) :]
        self._sizes = [known.get(id(message)) or message_tokens(message) for message in self._messages]

    def _append_request(self, parts: list[Any]) -> None:
        from pydantic_ai.messages import ModelRequest

        # Providers require alternating turns. Results come first, because calls are answered before a question.
        if self._messages and self._messages[-1].kind == "request":
            last = self._messages.pop()
            self._sizes.pop()
            del self._serialized[len(self._messages) :]
            parts = [*last.parts, *parts]
        request = ModelRequest(parts=parts)
        self._messages.append(request)
        self._sizes.append(message_tokens(request))


def parse_tool_call(call: ToolCallPart) -> ModelToolCall:
    """Converts a call of the library; arguments that are not a JSON object are reported in `arguments_error`."""
    try:
        arguments = call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError) as error:
        why = str(error) if isinstance(error, ValueError) else "they have another type"
        return ModelToolCall(call.tool_call_id, call.tool_name, {}, f"The arguments are not a JSON object: {why}.")
    return ModelToolCall(call.tool_call_id, call.tool_name, arguments)


def _tool_return_part(answer: ModelToolResult) -> Any:
    from pydantic_ai.messages import BinaryContent, ToolReturnPart

    shown = [each for each in answer.pictures if each.media_type in _SUPPORTED_IMAGES]
    hidden = [each.media_type for each in answer.pictures if each.media_type not in _SUPPORTED_IMAGES]
    text = answer.text
    if hidden:
        text = f"{text}\n[Not shown: {', '.join(hidden)}]".lstrip()
    pictures = [BinaryContent(each.data, media_type=each.media_type) for each in shown]
    return ToolReturnPart(
        tool_name=answer.call.tool,
        content=[text, *pictures] if pictures else text,
        tool_call_id=answer.call.id,
        outcome="failed" if answer.failed else "success",
    )


def _with_unique_call_ids(response: ModelResponse) -> ModelResponse:
    """Gives every call a unique id: some servers repeat ids, and results are matched by id."""
    from pydantic_ai.messages import ToolCallPart

    taken: set[str] = set()
    parts: list[Any] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            name, others = part.tool_call_id, count(1)
            while not name or name in taken:
                name = f"{part.tool_call_id or 'call'}_{next(others)}"
            if name != part.tool_call_id:
                part = replace(part, tool_call_id=name)
            taken.add(name)
        parts.append(part)
    return replace(response, parts=parts)
