"""A client as the bridge sees it: who it is, what it can do, and a way to ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolyard.bridge.sampling_prompts import SamplingQuestion


@dataclass(frozen=True, slots=True)
class SamplingAnswer:
    text: str
    asked_at: float
    """When it was asked, by `time.time()`."""
    pushed_calls: tuple[Mapping[str, Any], ...] = ()
    """The arguments of calls of guide_cache_file that the answer itself is made of."""
    problem: str = ""
    """Why it cannot be used: it was cut off, or is no text and no call of guide_cache_file."""


class BridgeClient(Protocol):
    @property
    def identity(self) -> str:
        """Whose files these are: nobody with another identity sees them."""
        ...

    @property
    def title(self) -> str:
        """What it calls itself."""
        ...

    @property
    def can_sample(self) -> bool: ...

    @property
    def can_use_tools(self) -> bool:
        """Whether tools can be handed to its model with a request."""
        ...

    @property
    def offers_roots(self) -> bool: ...

    def has_answered(self, question: SamplingQuestion) -> bool:
        """Whether it was asked that earlier in this very call, and has answered."""
        ...

    async def ask(self, questions: Sequence[SamplingQuestion], seconds: float) -> list[SamplingAnswer]:
        """The answers, in order. Raises SamplingTimeoutError, SamplingRefusedError or BadAnswerError.

        From protocol 2026-07-28 on, the call that asks has to end first: this raises AnswerPending then, and
        gives the answers when the client repeats the call with them.
        """
        ...

    async def roots(self, seconds: float) -> tuple[str, ...]:
        """The file URIs of its roots. Raises as `ask` does."""
        ...
