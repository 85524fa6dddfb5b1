"""The `assistant` section: models, limits and thread storage of `toolyard assistant`."""

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
"""Value of `storage` for a database in the state folder."""
DEFAULT_MODEL: Final = "google:gemini-2.5-pro"

_LOCALE = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}([.@][A-Za-z0-9-]{1,10})?$"
_RATE = re.compile(r"(\d+)\s*/\s*(second|minute|hour|day)")
_PERIODS: Final = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0}
_DAY = 86_400.0
_THREAD_DAYS = 30.0
_THREAD_TURNS = 100


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of calls per number of seconds."""

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
    """Limits of one request."""

    file_bytes: Size = 10 * MIB
    files: Size = 50
    """Maximum number of files; the files of a named folder count individually."""
    context_tokens: Size = 1_000_000
    """Maximum size of everything that is sent; never more than the model's own context."""
    thinking_tokens: Size = 32_768
    """The budget of `thinking_mode: max`."""
    seconds: Seconds = 300.0
    reply_chars: Size = 36_000
    """Maximum length of an answer; the rest of a longer one is a resource. Gemini CLI removes the middle of results
    over 40,000 characters; of results over 50,000, Claude Code shows the first 2,000 without the continuation_id."""


class Assistant(Section):
    """The six tools of `toolyard assistant`."""

    model: str | None = None
    """`provider:name` (`google:gemini-2.5-pro`, `openai-chat:llama3`) or an alias; TOOLYARD_MODEL overrides it."""
    models: Mapping[ToolName, str] = Field(default_factory=dict[ToolName, str])
    """Models of single tools, if different."""
    aliases: Mapping[str, str] = Field(default_factory=dict)
    """Short names for models: `pro: google:gemini-2.5-pro`."""
    allowed_models: tuple[str, ...] = ()
    """Globs on `provider:name`; empty allows every model."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The default temperature if a call sets none."""
    locale: Annotated[str, Field(pattern=_LOCALE)] | None = None
    """The language of answers, such as `de-DE`."""
    storage: Annotated[str, AfterValidator(_check_storage)] = Field(default=SQLITE_STORAGE, repr=False)
    """Where threads are stored: `sqlite`, or `redis://host:6379/0` to share them between servers."""
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] | None = None
    """In Redis, servers with the same namespace share their threads. Defaults to one per workspace."""
    thread_days: Annotated[float, Field(gt=0, le=3_650, allow_inf_nan=False)] = _THREAD_DAYS
    """Days without a turn after which a thread expires."""
    thread_turns: Size = _THREAD_TURNS
    """Maximum number of turns in a thread."""
    rate_limits: Mapping[ToolName, RateText | None] = Field(default_factory=dict[ToolName, "Rate | None"])
    """Maximum call rate of one client, such as `chat: 10/minute`; `null` removes the limit of a tool."""
    limits: AssistantLimits = AssistantLimits()

    def rate_for(self, tool: ToolName) -> Rate | None:
        return self.rate_limits[tool] if tool in self.rate_limits else DEFAULT_RATES[tool]

    def exceeds_defaults(self) -> bool:
        """Whether a client could use more of a model than with the default settings."""
        if self.thread_turns > _THREAD_TURNS or self.thread_days > _THREAD_DAYS:
            return True
        usual = AssistantLimits()
        rates = ((self.rate_for(tool), DEFAULT_RATES[tool]) for tool in ASSISTANT_TOOLS)
        return any(
            rate is None or rate.calls / rate.seconds > least.calls / least.seconds or rate.calls > least.calls
            for rate, least in rates
        ) or any(getattr(self.limits, name) > getattr(usual, name) for name in AssistantLimits.model_fields)

    def keeps_less_than_defaults(self) -> bool:
        """Whether threads would expire or be full sooner than with the default settings."""
        return self.thread_days < _THREAD_DAYS or self.thread_turns < _THREAD_TURNS

    @property
    def thread_seconds(self) -> float:
        return self.thread_days * _DAY
