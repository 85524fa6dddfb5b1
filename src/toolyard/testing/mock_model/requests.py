"""What the model was sent: the request as it came, and a view of its conversation that is the same for every API."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

BYTES_PER_TOKEN = 4
"""Roughly, in English and JSON."""
_ID_SUFFIX = re.compile(r"t(\d+)n\d+_([0-9a-f]{8})$")


def as_object(value: Any) -> Json:
    """What should be an object, empty where it is none."""
    return cast("Json", value) if isinstance(value, dict) else {}


def format_id_suffix(turn: int, index: int, conversation: str) -> str:
    """The end of the id of a call. It tells which turn made it, even where the history was shortened since."""
    return f"t{turn}n{index}_{conversation}"


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Text of the user's."""

    text: str


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that the model made."""

    id: str
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """Something of the model's."""

    text: str = ""
    calls: tuple[PastCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call: as its API spells it, its text, and the id of the call where the API goes by that."""

    raw: Any
    text: str
    id: str = ""


Entry: TypeAlias = UserMessage | AssistantMessage | ToolOutput


@dataclass(frozen=True)
class Conversation:
    model: str = ""
    system: str = ""
    entries: tuple[Entry, ...] = ()
    tools: tuple[DeclaredTool, ...] = ()

    @property
    def user_texts(self) -> tuple[str, ...]:
        return tuple(entry.text for entry in self.entries if isinstance(entry, UserMessage))

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(entry.text for entry in self.entries if isinstance(entry, ToolOutput))

    @property
    def model_texts(self) -> tuple[str, ...]:
        return tuple(entry.text for entry in self.entries if isinstance(entry, AssistantMessage) and entry.text)

    @property
    def calls(self) -> tuple[PastCall, ...]:
        return tuple(call for entry in self.entries if isinstance(entry, AssistantMessage) for call in entry.calls)

    @cached_property
    def turn(self) -> int:
        """How many turns the model has taken before this one.

        Those that are there are counted, and one that made calls says its number in their ids: a conversation that
        was shortened goes on where it was, as long as its last call is still there.
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
        """The ids of calls that have no result where it belongs, and of results that have no call."""
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
        """The same for every request of one conversation, also when it was shortened."""
        for call in reversed(self.calls):
            if found := _ID_SUFFIX.search(call.id):
                return found[2]
        first = next(iter(self.user_texts), "")
        return hashlib.sha256(f"{self.model}\0{self.system}\0{first}".encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Request:
    """Everything of one request, with the view of its conversation at hand."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Their names are in small letters."""
    body: Json
    api: str = ""
    """`gemini`, `chat`, `responses` or `anthropic`; empty for what is no request of these."""
    is_turn: bool = False
    """Whether it asks for an answer; others count tokens, or look around."""
    is_streaming: bool = False
    tokens: int = 0
    """By estimate."""
    conversation: Conversation = field(default_factory=Conversation)

    @property
    def model(self) -> str:
        return self.conversation.model

    @property
    def system(self) -> str:
        return self.conversation.system

    @property
    def user_texts(self) -> tuple[str, ...]:
        """What the user said, in order."""
        return self.conversation.user_texts

    @property
    def results(self) -> tuple[str, ...]:
        """The text of each result of a tool, in order."""
        return self.conversation.results

    @property
    def raw_results(self) -> tuple[Any, ...]:
        """Each result of a tool as the API spells it."""
        return tuple(entry.raw for entry in self.conversation.entries if isinstance(entry, ToolOutput))

    @property
    def model_texts(self) -> tuple[str, ...]:
        """What the model said before, in order."""
        return self.conversation.model_texts

    @property
    def calls(self) -> tuple[PastCall, ...]:
        """The calls that the model made before, in order."""
        return self.conversation.calls

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that are offered."""
        return tuple(tool.name for tool in self.conversation.tools)

    @property
    def schemas(self) -> dict[str, DeclaredTool]:
        return {tool.name: tool for tool in self.conversation.tools}

    @property
    def turn(self) -> int:
        return self.conversation.turn

    @property
    def key(self) -> str:
        """The key of whoever asks, wherever the API has it."""
        bearer = self.headers.get("authorization", "")
        named = self.headers.get("x-goog-api-key") or self.headers.get("x-api-key")
        return named or bearer.removeprefix("Bearer ")

    @property
    def images(self) -> tuple[tuple[str, str], ...]:
        """The media type and the Base64 of each picture in it, in order."""
        return tuple(_find_images(self.body))


def _find_images(value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _find_images(each)
    elif isinstance(value, dict):
        held = cast("Json", value)
        inline, source = as_object(held.get("inlineData") or held.get("inline_data")), as_object(held.get("source"))
        if inline:
            yield inline.get("mimeType") or inline["mime_type"], inline["data"]  # the API takes both spellings
        elif source.get("type") == "base64":
            yield source["media_type"], source["data"]
        elif "image_url" in held:
            address = held["image_url"]
            kind, _, data = str(as_object(address).get("url", address)).partition(";base64,")
            yield kind.removeprefix("data:"), data
        else:
            for each in held.values():
                yield from _find_images(each)
