"""The interface of a provider API: parses conversations, and encodes answers and errors. Each API has its own
file.
"""

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
"""By HTTP status, for scripts without a message."""


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error in a form common to all APIs."""

    status: int
    message: str
    retry_after: float | None = None
    code: str = ""
    """The provider's own code, if it does not follow from the status."""


@dataclass(frozen=True)
class ModelAnswer:
    """A turn, and the request that it answers."""

    turn: Turn
    request: Request

    @property
    def usage(self) -> Usage:
        """The token counts of the script, or an estimate."""
        if self.turn.usage is not None:
            return self.turn.usage
        arguments = sum(len(arguments_text(call.arguments)) for call in self.turn.calls)
        thinking = math.ceil(len(self.turn.thinking) / BYTES_PER_TOKEN)
        output = thinking + math.ceil((len(self.turn.text) + arguments) / BYTES_PER_TOKEN)
        return Usage(max(1, self.request.tokens), max(1, output), thinking=thinking)

    @property
    def id_suffix(self) -> str:
        """The suffix that makes ids of this answer unique."""
        return self.call_id_suffix(0)

    def call_id_suffix(self, index: int) -> str:
        """Returns the suffix for the id of a call."""
        return format_id_suffix(self.request.turn, index, self.request.conversation.identity)


class ProviderApi(abc.ABC):
    """The wire format of one provider."""

    name: ClassVar[str]
    event_separator: ClassVar[bytes] = b"\n\n"
    """The bytes that end an event."""

    @abc.abstractmethod
    def parse_conversation(self, path: str, body: Json) -> Conversation:
        """Returns the conversation of a request."""
        ...

    @abc.abstractmethod
    def full_response(self, answer: ModelAnswer) -> Json:
        """Returns the body of an answer that is not streamed."""

    @abc.abstractmethod
    def stream_events(self, answer: ModelAnswer) -> list[Json | str]:
        """Returns the events of a streamed answer."""

    @abc.abstractmethod
    def error_body(self, failure: ApiError) -> Json:
        """Returns the body of an error response."""
        ...

    @abc.abstractmethod
    def unpaired_error(self, missing: Sequence[str], strange: Sequence[str]) -> ApiError:
        """Returns the error for calls without results, or results without calls, given their ids."""

    @abc.abstractmethod
    def too_long_error(self, step: TooLong) -> ApiError:
        """Returns the error for a conversation that exceeds the context window."""
        ...

    def error_headers(self, failure: ApiError) -> dict[str, str]:
        """Returns the headers of an error response."""
        return {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}

    def is_streaming(self, path: str, body: Json) -> bool:
        """Whether a request asks for a stream."""
        del path
        return bool(body.get("stream"))

    def token_count_body(self, tokens: int) -> Json:
        """Returns the answer to a token count request, if the API has one."""
        raise NotImplementedError

    def encode_event(self, item: Json | str) -> bytes:
        """Returns the bytes of one event."""
        data = item if isinstance(item, str) else to_json(item)
        return b"data: " + data.encode() + self.event_separator

    def encode_error_event(self, failure: ApiError, number: int) -> bytes:
        """Returns an error in the middle of a stream, after `number` events."""
        del number
        return self.encode_event(self.error_body(failure))


def to_json(value: Any) -> str:
    """Returns compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(arguments: Any) -> str:
    """Returns arguments as text, for APIs that send them so."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def split_words(text: str) -> list[str]:
    """Splits a text at words into the pieces that are streamed."""
    words = re.findall(r"\S+\s*|\s+", text)
    size = max(1, math.ceil(len(words) / _MAX_PIECES))
    return ["".join(words[at : at + size]) for at in range(0, len(words), size)]


def split_arguments(text: str) -> list[str]:
    """Splits arguments into the pieces that are streamed, regardless of words."""
    size = max(1, math.ceil(len(text) / _ARGUMENT_PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def objects_in(value: Any) -> Sequence[Json]:
    """Returns the objects of a list; empty if there is no list."""
    if not isinstance(value, list):
        return []
    return [cast("Json", each) for each in cast("list[Any]", value) if isinstance(each, dict)]


def text_of(content: Any) -> str:
    """Returns the text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in objects_in(content))
