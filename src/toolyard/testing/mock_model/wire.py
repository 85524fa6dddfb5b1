"""What every API has: reading a conversation from a request, and writing answers and errors. Each has a file here."""

from __future__ import annotations

import abc
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from toolyard.testing.mock_model.requests import BYTES_PER_TOKEN, Conversation, Json, Request, issued
from toolyard.testing.mock_model.steps import TooLong, Turn, Usage

_MOST_PIECES = 64
_PIECES_OF_ARGUMENTS = 5
MESSAGES = {
    400: "the request is not right",
    401: "API key not valid",
    403: "this key may not use the model",
    404: "the model does not exist",
    413: "the request is too large",
    429: "the quota is exceeded",
    500: "the model fell over",
    503: "the model is overloaded",
    504: "the model took too long",
    529: "Overloaded",
}
"""What providers say where a script does not."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as an API tells it."""

    status: int
    message: str
    retry_after: float | None = None
    code: str = ""
    """The provider's own word for what is wrong, where it has one beside those that follow from the status."""


@dataclass(frozen=True)
class Answer:
    """A turn, and the request that it answers."""

    turn: Turn
    request: Request

    @property
    def usage(self) -> Usage:
        if self.turn.usage is not None:
            return self.turn.usage
        arguments = sum(len(text_of_arguments(call.arguments)) for call in self.turn.calls)
        thinking = math.ceil(len(self.turn.thinking) / BYTES_PER_TOKEN)
        output = thinking + math.ceil((len(self.turn.text) + arguments) / BYTES_PER_TOKEN)
        return Usage(max(1, self.request.tokens), max(1, output), thinking=thinking)

    @property
    def mark(self) -> str:
        """What makes ids of this answer its own."""
        return self.call_mark(0)

    def call_mark(self, index: int) -> str:
        return issued(self.request.turn, index, self.request.conversation.identity)


class Api(abc.ABC):
    name: ClassVar[str]
    breaks: ClassVar[bytes] = b"\n\n"
    """What ends an event."""

    @abc.abstractmethod
    def read(self, path: str, body: Json) -> Conversation: ...

    @abc.abstractmethod
    def whole(self, answer: Answer) -> Json:
        """The answer at once."""

    @abc.abstractmethod
    def stream(self, answer: Answer) -> list[Json | str]:
        """The answer in pieces: each is an event."""

    @abc.abstractmethod
    def error(self, failure: Failure) -> Json: ...

    @abc.abstractmethod
    def unpaired(self, missing: Sequence[str], strange: Sequence[str]) -> Failure:
        """The error for calls without results, or results without calls, by their ids."""

    @abc.abstractmethod
    def too_long(self, step: TooLong) -> Failure: ...

    def headers(self, failure: Failure) -> dict[str, str]:
        """Beside an error."""
        return {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}

    def streams(self, path: str, body: Json) -> bool:
        del path
        return bool(body.get("stream"))

    def count(self, tokens: int) -> Json:
        """The answer to a question for the number of tokens, where the API has one."""
        raise NotImplementedError

    def event(self, item: Json | str) -> bytes:
        data = item if isinstance(item, str) else dumped(item)
        return b"data: " + data.encode() + self.breaks

    def error_event(self, failure: Failure, number: int) -> bytes:
        """An error in the middle of a stream, after `number` events."""
        del number
        return self.event(self.error(failure))


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_of_arguments(arguments: Any) -> str:
    """As an API has it that sends arguments as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def words(text: str) -> list[str]:
    """A text in the pieces that it is streamed in."""
    found = re.findall(r"\S+\s*|\s+", text)
    together = max(1, math.ceil(len(found) / _MOST_PIECES))
    return ["".join(found[at : at + together]) for at in range(0, len(found), together)]


def fragments(text: str) -> list[str]:
    """Arguments in the pieces that they are streamed in, which care nothing for words."""
    size = max(1, math.ceil(len(text) / _PIECES_OF_ARGUMENTS))
    return [text[at : at + size] for at in range(0, len(text), size)]


def items(value: Any) -> Sequence[Json]:
    """The objects of a list that may be missing."""
    if not isinstance(value, list):
        return []
    return [cast("Json", each) for each in cast("list[Any]", value) if isinstance(each, dict)]


def text_of(content: Any) -> str:
    """The text of what is a text or a list of parts, as most APIs have it."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in items(content))
