"""The requests that the model received: the raw request, and a view of its conversation common to all APIs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

BYTES_PER_TOKEN = 4
"""An estimate for English text and JSON."""
_ID_SUFFIX = re.compile(r"t(\d+)n\d+_([0-9a-f]{8})$")


def as_object(value: Any) -> Json:
    """Returns `value` if it is an object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def format_id_suffix(turn: int, index: int, conversation: str) -> str:
    """Returns the end of a call id. It encodes the turn, which survives a shortened history."""
    return f"t{turn}n{index}_{conversation}"


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool that the request offers to the model."""

    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A text of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that the model made earlier."""

    id: str
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A text or calls of the model."""

    text: str = ""
    calls: tuple[PastCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call: in the API's form, as text, and the call id if the API uses ids."""

    raw: Any
    text: str
    id: str = ""


Entry: TypeAlias = UserMessage | AssistantMessage | ToolOutput


@dataclass(frozen=True)
class Conversation:
    """Model, system prompt, history and tools of a request."""

    model: str = ""
    system: str = ""
    entries: tuple[Entry, ...] = ()
    tools: tuple[DeclaredTool, ...] = ()

    @property
    def user_texts(self) -> tuple[str, ...]:
        """The texts of the user, in order."""
        return tuple(entry.text for entry in self.entries if isinstance(entry, UserMessage))

    @property
    def results(self) -> tuple[str, ...]:
        """The texts of the tool results, in order."""
        return tuple(entry.text for entry in self.entries if isinstance(entry, ToolOutput))

    @property
    def model_texts(self) -> tuple[str, ...]:
        """The earlier texts of the model, in order."""
        return tuple(entry.text for entry in self.entries if isinstance(entry, AssistantMessage) and entry.text)

    @property
    def calls(self) -> tuple[PastCall, ...]:
        """The earlier calls of the model, in order."""
        return tuple(call for entry in self.entries if isinstance(entry, AssistantMessage) for call in entry.calls)

    @cached_property
    def turn(self) -> int:
        """The number of turns that the model has taken before this one.

        Counts the turns in the history. A turn with calls also encodes its number in their ids, so a shortened
        conversation keeps its count as long as its last call is still there.
        """
        taken, is_speaking = 0, False
        for entry in self.entries:
            speaks = isinstance(entry, AssistantMessage) and bool(entry.text or entry.calls)
            if speaks and not is_speaking:
                taken += 1
            if isinstance(entry, AssistantMessage):
                for call in entry.calls:
                    found = _ID_SUFFIX.search(call.id)
                    taken = max(taken, int(found[1]) + 1) if found else taken
                is_speaking = is_speaking or speaks
            else:
                is_speaking = False
        return taken

    @property
    def unpaired_ids(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The ids of calls without a result in the right place, and of results without a call."""
        waiting, missing, strange, is_speaking = list[str](), list[str](), list[str](), False
        for entry in self.entries:
            if isinstance(entry, ToolOutput):
                known = entry.id or (waiting[0] if waiting else "")
                (waiting.remove if known in waiting else strange.append)(known)
            elif not (is_speaking and isinstance(entry, AssistantMessage)):
                missing += waiting
                waiting = []
            if isinstance(entry, AssistantMessage):
                waiting += [call.id for call in entry.calls]
            is_speaking = isinstance(entry, AssistantMessage)
        return (*missing, *waiting), tuple(strange)

    @cached_property
    def identity(self) -> str:
        """A hash that is the same for every request of one conversation, even after it was shortened."""
        for call in reversed(self.calls):
            if found := _ID_SUFFIX.search(call.id):
                return found[2]
        first = next(iter(self.user_texts), "")
        return hashlib.sha256(f"{self.model}\0{self.system}\0{first}".encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Request:
    """One request with the view of its conversation."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: Json
    api: str = ""
    """`gemini`, `chat`, `responses` or `anthropic`; empty for other requests."""
    is_turn: bool = False
    """Whether it asks for an answer, rather than for a token count or something else."""
    is_streaming: bool = False
    tokens: int = 0
    """An estimate."""
    conversation: Conversation = field(default_factory=Conversation)

    @property
    def model(self) -> str:
        return self.conversation.model

    @property
    def system(self) -> str:
        return self.conversation.system

    @property
    def user_texts(self) -> tuple[str, ...]:
        """The texts of the user, in order."""
        return self.conversation.user_texts

    @property
    def results(self) -> tuple[str, ...]:
        """The text of each tool result, in order."""
        return self.conversation.results

    @property
    def raw_results(self) -> tuple[Any, ...]:
        """Each tool result in the API's own form."""
        return tuple(entry.raw for entry in self.conversation.entries if isinstance(entry, ToolOutput))

    @property
    def model_texts(self) -> tuple[str, ...]:
        """The earlier texts of the model, in order."""
        return self.conversation.model_texts

    @property
    def calls(self) -> tuple[PastCall, ...]:
        """The earlier calls of the model, in order."""
        return self.conversation.calls

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the offered tools."""
        return tuple(tool.name for tool in self.conversation.tools)

    @property
    def schemas(self) -> dict[str, DeclaredTool]:
        """The offered tools by name."""
        return {tool.name: tool for tool in self.conversation.tools}

    @property
    def turn(self) -> int:
        return self.conversation.turn

    @property
    def key(self) -> str:
        """The API key, from whichever header the API uses."""
        bearer = self.headers.get("authorization", "")
        named = self.headers.get("x-goog-api-key") or self.headers.get("x-api-key")
        return named or bearer.removeprefix("Bearer ")

    @property
    def images(self) -> tuple[tuple[str, str], ...]:
        """The media type and the Base64 data of each image in the request, in order."""
        return tuple(_find_images(self.body))


def _find_images(value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _find_images(each)
    elif isinstance(value, dict):
        held = cast("Json", value)
        inline, source = as_object(held.get("inlineData") or held.get("inline_data")), as_object(held.get("source"))
        if inline:
            yield inline.get("mimeType") or inline["mime_type"], inline["data"]  # the API accepts both spellings
        elif source.get("type") == "base64":
            yield source["media_type"], source["data"]
        elif "image_url" in held:
            address = held["image_url"]
            kind, _, data = str(as_object(address).get("url", address)).partition(";base64,")
            yield kind.removeprefix("data:"), data
        else:
            for each in held.values():
                yield from _find_images(each)
