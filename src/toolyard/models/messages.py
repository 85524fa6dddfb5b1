"""Data of one turn: tools offered to the model, its calls, settings, usage and streamed events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ThinkingMode: TypeAlias = Literal["minimal", "low", "medium", "high", "max"]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool call that the model asks for."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    arguments_error: str = ""
    """Why the arguments cannot be read; empty if they can."""


@dataclass(frozen=True, slots=True)
class Picture:
    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class ModelToolResult:
    """The result of a tool call, as the model is shown it."""

    call: ModelToolCall
    text: str
    pictures: tuple[Picture, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """Settings of one turn. None leaves the choice to the backend or to the model.

    If a model refuses a setting, the request is repeated without it.
    """

    temperature: float | None = None
    thinking: ThinkingMode | None = None
    thinking_tokens: int = 32_768
    """Upper limit for the thinking tokens of every mode."""
    seconds: float | None = None
    """Time limit for all attempts and the waits between them; a wait that would exceed it is not started."""


DEFAULT_TURN_SETTINGS = TurnSettings()


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens and cost. `cost` is in US dollars, None if the price of the model is unknown."""

    input: int = 0
    output: int = 0
    cached: int = 0
    """Part of `input` that came from the provider's cache."""
    cost: float | None = None
    thinking: int = 0
    """Part of `output` that was thinking, if the provider counts it."""

    def __add__(self, other: ModelUsage) -> ModelUsage:
        known = [each.cost for each in (self, other) if each.cost is not None]
        return ModelUsage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            sum(known) if known else None,
            self.thinking + other.thinking,
        )

    @property
    def total(self) -> int:
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The answer of the model in one turn."""

    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    thinking: str = ""
    usage: ModelUsage = ModelUsage()
    is_truncated: bool = False
    """Whether the answer ended at its length limit."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's thinking, if its API exposes it."""

    text: str


@dataclass(frozen=True, slots=True)
class DeltasDiscarded:
    """The deltas of this turn so far are void: the request is repeated."""


@dataclass(frozen=True, slots=True)
class RetryWait:
    """The next attempt follows after a pause."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ConversationCompacted:
    """The conversation was shortened to fit the context. In estimated tokens."""

    before: int
    after: int


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | DeltasDiscarded | RetryWait | ConversationCompacted
StreamEventHandler: TypeAlias = Callable[[StreamEvent], None]


def ignore_stream_event(event: StreamEvent) -> None:
    """The default handler, for callers that need only the final result."""
