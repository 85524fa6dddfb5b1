"""What goes to a model and what comes back in one turn: offered tools, calls, settings, usage, streamed pieces."""

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
    """A call that the model asks for."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    arguments_error: str = ""
    """Why its arguments cannot be read; empty where they can."""


@dataclass(frozen=True, slots=True)
class Picture:
    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class ModelToolResult:
    """What the model is shown of a call."""

    call: ModelToolCall
    text: str
    pictures: tuple[Picture, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How one turn is to be answered. What is left out is as the backend says, or as the model does by itself.

    A model that does not take a part of it is asked without.
    """

    temperature: float | None = None
    thinking: ThinkingMode | None = None
    thinking_tokens: int = 32_768
    """What no mode goes beyond."""
    seconds: float | None = None
    """For all tries and the waits between them: a wait that would take longer is not begun."""


DEFAULT_TURN_SETTINGS = TurnSettings()


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens and money. `cost` is in US dollars, None where the price of the model is not known."""

    input: int = 0
    output: int = 0
    cached: int = 0
    """Of `input`, what the provider had kept."""
    cost: float | None = None
    thinking: int = 0
    """Of `output`, what was thought and not said, where the provider counts it."""

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
    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    thinking: str = ""
    usage: ModelUsage = ModelUsage()
    is_truncated: bool = False
    """Whether the answer ended at a limit of its length."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of what the model thinks before it answers, where its API tells."""

    text: str


@dataclass(frozen=True, slots=True)
class DeltasDiscarded:
    """The pieces of this turn so far do not count: it is tried again."""


@dataclass(frozen=True, slots=True)
class RetryWait:
    """The next try follows after a pause."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ConversationCompacted:
    """The conversation was made to fit the model's context. Tokens, by estimate."""

    before: int
    after: int


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | DeltasDiscarded | RetryWait | ConversationCompacted
StreamEventHandler: TypeAlias = Callable[[StreamEvent], None]


def ignore_stream_event(event: StreamEvent) -> None:
    """For who waits for the whole turn."""
