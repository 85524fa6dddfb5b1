"""`assistant`: the second opinion that `toolyard assistant` serves: its models, its limits, what is kept where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from toolyard.config.section import Seconds, Section, Size, expected_error
from toolyard.core.limits import MIB

ToolName = Literal["chat", "thinkdeep", "analyze", "codereview", "debug", "precommit"]
ASSISTANT_TOOLS: Final[tuple[ToolName, ...]] = ("chat", "thinkdeep", "analyze", "codereview", "debug", "precommit")
SQLITE_STORAGE: Final = "sqlite"
"""As `storage`: a database in the state folder."""
DEFAULT_MODEL: Final = "google:gemini-2.5-pro"

_LOCALE = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}([.@][A-Za-z0-9-]{1,10})?$"
_RATE = re.compile(r"(\d+)\s*/\s*(second|minute|hour|day)")
_PERIODS: Final = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0}
_DAY = 86_400.0
_THREAD_DAYS = 30.0
_THREAD_TURNS = 100


@dataclass(frozen=True, slots=True)
class Rate:
    """So many calls in so many seconds."""

    calls: int
    seconds: float

    def __str__(self) -> str:
        period = next((name for name, seconds in _PERIODS.items() if seconds == self.seconds), f"{self.seconds:g} s")
        return f"{self.calls}/{period}"


def _parse_rate(value: Any) -> Any:
    if isinstance(value, Rate):
        return value
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or int(found[1]) == 0:
        raise expected_error("a rate such as 10/minute")
    return Rate(int(found[1]), _PERIODS[found[2]])


RateText = Annotated[
    Rate,
    BeforeValidator(_parse_rate, json_schema_input_type=str),
    PlainSerializer(str, return_type=str),
]

DEFAULT_RATES: Final[Mapping[ToolName, Rate]] = {
    "chat": Rate(10, 60.0),
    "analyze": Rate(5, 60.0),
    "thinkdeep": Rate(3, 60.0),
    "codereview": Rate(5, 60.0),
    "debug": Rate(5, 60.0),
    "precommit": Rate(3, 60.0),
}


def _check_storage(value: str) -> str:
    if value == SQLITE_STORAGE or value.startswith(("redis://", "rediss://", "unix://")):
        return value
    raise expected_error("`sqlite`, or where a Redis server listens (redis://localhost:6379/0)")


class AssistantLimits(Section):
    """How much one request may take."""

    file_bytes: Size = 10 * MIB
    files: Size = 50
    """Of those that are named; a folder's files count one by one."""
    context_tokens: Size = 1_000_000
    """Of everything that is sent; never more than the model's own context."""
    thinking_tokens: Size = 32_768
    """What `thinking_mode: max` stands for."""
    seconds: Seconds = 300.0
    reply_chars: Size = 36_000
    """Of an answer; the rest of a longer one is a resource. Gemini CLI takes out the middle of what is longer than
    40,000 characters; Claude Code shows the first 2,000 of what is longer than 50,000, and no continuation_id."""


class Assistant(Section):
    """The six tools of `toolyard assistant`."""

    model: str | None = None
    """`provider:name` (`google:gemini-2.5-pro`, `openai-chat:llama3`) or an alias; TOOLYARD_MODEL goes first."""
    models: Mapping[ToolName, str] = Field(default_factory=dict[ToolName, str])
    """Another model for one of the tools."""
    aliases: Mapping[str, str] = Field(default_factory=dict)
    """Short names for models: `pro: google:gemini-2.5-pro`."""
    allowed_models: tuple[str, ...] = ()
    """Globs on `provider:name`; nothing means every model."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Where a call names none."""
    locale: Annotated[str, Field(pattern=_LOCALE)] | None = None
    """The language of answers, such as `de-DE`."""
    storage: Annotated[str, AfterValidator(_check_storage)] = Field(default=SQLITE_STORAGE, repr=False)
    """Where threads are kept: `sqlite`, or `redis://host:6379/0` for several servers that share them."""
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] | None = None
    """In Redis: whose threads; servers with the same one share theirs. The workspace's own when left out."""
    thread_days: Annotated[float, Field(gt=0, le=3_650, allow_inf_nan=False)] = _THREAD_DAYS
    """After so long without a turn a thread expires."""
    thread_turns: Size = _THREAD_TURNS
    """After so many a thread is full."""
    rate_limits: Mapping[ToolName, RateText | None] = Field(default_factory=dict[ToolName, "Rate | None"])
    """Calls of one client, such as `chat: 10/minute`; `null` lifts the limit of a tool."""
    limits: AssistantLimits = AssistantLimits()

    def rate_for(self, tool: ToolName) -> Rate | None:
        return self.rate_limits[tool] if tool in self.rate_limits else DEFAULT_RATES[tool]

    def exceeds_defaults(self) -> bool:
        """Whether a client could use more of a model than without a word about it."""
        if self.thread_turns > _THREAD_TURNS or self.thread_days > _THREAD_DAYS:
            return True
        usual = AssistantLimits()
        rates = ((self.rate_for(tool), DEFAULT_RATES[tool]) for tool in ASSISTANT_TOOLS)
        return any(
            rate is None or rate.calls / rate.seconds > least.calls / least.seconds or rate.calls > least.calls
            for rate, least in rates
        ) or any(getattr(self.limits, name) > getattr(usual, name) for name in AssistantLimits.model_fields)

    def keeps_less_than_defaults(self) -> bool:
        """Whether threads would go, or be full, sooner than without a word about it."""
        return self.thread_days < _THREAD_DAYS or self.thread_turns < _THREAD_TURNS

    @property
    def thread_seconds(self) -> float:
        return self.thread_days * _DAY
