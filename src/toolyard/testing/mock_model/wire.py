"""What every API has: reading a conversation from a request, and writing answers and errors. Each has a file here."""

from __future__ import annotations

import abc
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from toolyard.testing.mock_model.requests import BYTES_PER_TOKEN, Conversation, Json, Request, format_id_suffix
from toolyard.testing.mock_model.steps import TooLong, Turn, Usage

_MAX_PIECES = 64
_ARGUMENT_PIECES = 5
DEFAULT_ERROR_MESSAGES = {
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
class ApiError:
    """An error as an API tells it."""

    status: int
    message: str
    retry_after: float | None = None
    code: str = ""
    """The provider's own word for what is wrong, where it has one beside those that follow from the status."""


@dataclass(frozen=True)
class ModelAnswer:
    """A turn, and the request that it answers."""

    turn: Turn
    request: Request

    @property
    def usage(self) -> Usage:
        if self.turn.usage is not None:
            return self.turn.usage
        arguments = sum(len(arguments_text(call.arguments)) for call in self.turn.calls)
        thinking = math.ceil(len(self.turn.thinking) / BYTES_PER_TOKEN)
        output = thinking + math.ceil((len(self.turn.text) + arguments) / BYTES_PER_TOKEN)
        return Usage(max(1, self.request.tokens), max(1, output), thinking=thinking)

    @property
    def id_suffix(self) -> str:
        """What makes ids of this answer its own."""
        return self.call_id_suffix(0)

    def call_id_suffix(self, index: int) -> str:
        return format_id_suffix(self.request.turn, index, self.request.conversation.identity)


class ProviderApi(abc.ABC):
    name: ClassVar[str]
    event_separator: ClassVar[bytes] = b"\n\n"
    """What ends an event."""

    @abc.abstractmethod
    def parse_conversation(self, path: str, body: Json) -> Conversation: ...

    @abc.abstractmethod
    def full_response(self, answer: ModelAnswer) -> Json:
        """The answer at once."""

    @abc.abstractmethod
    def stream_events(self, answer: ModelAnswer) -> list[Json | str]:
        """The answer in pieces: each is an event."""

    @abc.abstractmethod
    def error_body(self, failure: ApiError) -> Json: ...

    @abc.abstractmethod
    def unpaired_error(self, missing: Sequence[str], strange: Sequence[str]) -> ApiError:
        """The error for calls without results, or results without calls, by their ids."""

    @abc.abstractmethod
    def too_long_error(self, step: TooLong) -> ApiError: ...

    def error_headers(self, failure: ApiError) -> dict[str, str]:
        """Beside an error."""
        return {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}

    def is_streaming(self, path: str, body: Json) -> bool:
        del path
        return bool(body.get("stream"))

    def token_count_body(self, tokens: int) -> Json:
        """The answer to a question for the number of tokens, where the API has one."""
        raise NotImplementedError

    def encode_event(self, item: Json | str) -> bytes:
        data = item if isinstance(item, str) else to_json(item)
        return b"data: " + data.encode() + self.event_separator

    def encode_error_event(self, failure: ApiError, number: int) -> bytes:
        """An error in the middle of a stream, after `number` events."""
        del number
        return self.encode_event(self.error_body(failure))


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(arguments: Any) -> str:
    """As an API has it that sends arguments as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def split_words(text: str) -> list[str]:
    """A text in the pieces that it is streamed in."""
    found = re.findall(r"\S+\s*|\s+", text)
    together = max(1, math.ceil(len(found) / _MAX_PIECES))
    return ["".join(found[at : at + together]) for at in range(0, len(found), together)]


def split_arguments(text: str) -> list[str]:
    """Arguments in the pieces that they are streamed in, which care nothing for words."""
    size = max(1, math.ceil(len(text) / _ARGUMENT_PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def objects_in(value: Any) -> Sequence[Json]:
    """The objects of a list that may be missing."""
    if not isinstance(value, list):
        return []
    return [cast("Json", each) for each in cast("list[Any]", value) if isinstance(each, dict)]


def text_of(content: Any) -> str:
    """The text of what is a text or a list of parts, as most APIs have it."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in objects_in(content))
