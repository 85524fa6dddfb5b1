"""What a model and its caller have said to each other, in the order in which providers want it.

A conversation alternates: what the caller says (a question, the answers to calls) and what the model answered. Each
call is answered before anything else is said; `pending_calls` names those that are not, as after a crash. Parts that
only the provider understands (signatures of its thinking) stay where they are, or it would refuse the history.

A message is never changed, only replaced: its estimate of tokens is made once, and so are the bytes it is kept as.
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
"""What every provider takes."""


class Conversation:
    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._sizes: list[int] = []
        self._serialized: list[bytes] = []
        """Of the first messages: the others were not dumped yet."""

    @classmethod
    def from_turns(cls, turns: Iterable[tuple[str, str]]) -> Conversation:
        """Turns that were taken before, each as what was asked and what was answered to it.

        Where nothing was answered, what was asked is said together with what follows.
        """
        conversation = cls()
        from pydantic_ai.messages import ModelResponse, TextPart

        for asked, answered in turns:
            conversation.add_question(asked)
            if answered.strip():
                conversation.add_response(ModelResponse(parts=[TextPart(repair_surrogates(answered))]))
        return conversation

    @classmethod
    def load(cls, data: bytes) -> Conversation:
        """What `dump` wrote."""
        conversation = cls()
        from pydantic import ValidationError
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        try:
            conversation.replace_messages(ModelMessagesTypeAdapter.validate_json(data))
        except ValidationError:
            raise SystemFault(
                "A stored conversation cannot be read: it is damaged, or of another version.",
                hint="Start the agent anew.",
            ) from None
        return conversation

    def dump(self) -> bytes:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        # After each turn a conversation is kept whole: what was dumped before would cost more with every turn.
        for message in self._messages[len(self._serialized) :]:
            self._serialized.append(ModelMessagesTypeAdapter.dump_json([message])[1:-1])
        return b"[%b]" % b",".join(self._serialized)

    def add_question(self, text: str) -> None:
        """Say something to the model."""
        from pydantic_ai.messages import UserPromptPart

        if self.pending_calls:
            raise ValueError("calls of the model are not answered yet")
        self._append_request([UserPromptPart(repair_surrogates(text))])

    def add_tool_results(self, answers: Sequence[ModelToolResult]) -> None:
        """Show the model what its calls came to; each of `pending_calls` once, all of them or first some."""
        open_ids = {wanted.id for wanted in self.pending_calls}
        ids = [each.call.id for each in answers]
        if len(set(ids)) != len(ids) or not open_ids.issuperset(ids):
            raise ValueError("an answer to a call that is not open")
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
        """Whether the model had the last word, and wants no calls."""
        return bool(self._messages) and self._messages[-1].kind == "response" and not self.pending_calls

    @property
    def last_text(self) -> str:
        """What the model said last; empty where it said nothing."""
        for message in reversed(self._messages):
            if message.kind == "response":
                return message.text or ""
        return ""

    @property
    def tokens(self) -> int:
        """What it costs the model's context, by estimate."""
        return sum(self._sizes)

    def __len__(self) -> int:
        return len(self._messages)

    # What follows is for this package: the messages are of pydantic-ai.

    @property
    def messages(self) -> list[ModelMessage]:
        """As they are sent. Not to be changed."""
        return self._messages

    @property
    def sizes(self) -> Sequence[int]:
        """The estimate of each message."""
        return self._sizes

    def add_response(self, response: ModelResponse) -> tuple[ModelToolCall, ...]:
        """The model answered. Gives the calls it asks for."""
        response = _with_unique_call_ids(response)
        self._messages.append(response)
        self._sizes.append(message_tokens(response))
        return tuple(parse_tool_call(call) for call in response.tool_calls)

    def replace_messages(self, messages: Iterable[ModelMessage]) -> None:
        known = {id(message): size for message, size in zip(self._messages, self._sizes, strict=True)}
        before, self._messages = self._messages, list(messages)
        same = takewhile(lambda pair: pair[0] is pair[1], zip(before, self._messages, strict=False))
        del self._serialized[sum(1 for _ in same) :]
        self._sizes = [known.get(id(message)) or message_tokens(message) for message in self._messages]

    def _append_request(self, parts: list[Any]) -> None:
        from pydantic_ai.messages import ModelRequest

        # Providers want turns to alternate. Results come first, since all calls are answered before a question.
        if self._messages and self._messages[-1].kind == "request":
            last = self._messages.pop()
            self._sizes.pop()
            del self._serialized[len(self._messages) :]
            parts = [*last.parts, *parts]
        request = ModelRequest(parts=parts)
        self._messages.append(request)
        self._sizes.append(message_tokens(request))


def parse_tool_call(call: ToolCallPart) -> ModelToolCall:
    try:
        arguments = call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError) as error:
        why = str(error) if isinstance(error, ValueError) else "they are no object"
        return ModelToolCall(call.tool_call_id, call.tool_name, {}, f"The arguments are no JSON object: {why}.")
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
    """Every call with an id of its own: some servers number them all alike, and answers are matched by id."""
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
