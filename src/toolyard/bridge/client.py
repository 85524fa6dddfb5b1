"""The bridge's interface to a client: its identity, its capabilities, and sampling requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolyard.bridge.sampling_prompts import SamplingQuestion


@dataclass(frozen=True, slots=True)
class SamplingAnswer:
    """A client's answer to a sampling request."""

    text: str
    asked_at: float
    """When the question was asked, by `time.time()`."""
    pushed_calls: tuple[Mapping[str, Any], ...] = ()
    """The arguments of guide_cache_file calls, if the answer itself consists of such calls."""
    problem: str = ""
    """Why it cannot be used: it was cut off, or is neither text nor a call of guide_cache_file."""


class BridgeClient(Protocol):
    """The client behind one request, as the bridge needs it."""

    @property
    def identity(self) -> str:
        """The owner of the files: a client with another identity cannot see them."""
        ...

    @property
    def title(self) -> str:
        """The client's own name and version."""
        ...

    @property
    def can_sample(self) -> bool: ...

    @property
    def can_use_tools(self) -> bool:
        """Whether a sampling request can offer tools to its model."""
        ...

    @property
    def offers_roots(self) -> bool: ...

    def has_answered(self, question: SamplingQuestion) -> bool:
        """Whether it was asked this question earlier in the same call and has answered."""
        ...

    async def ask(self, questions: Sequence[SamplingQuestion], seconds: float) -> list[SamplingAnswer]:
        """Returns the answers, in order. Raises SamplingTimeoutError, SamplingRefusedError or BadAnswerError.

        From protocol 2026-07-28 on, the tool call must end before the client is asked: this raises AnswerPending, and
        returns the answers when the client repeats the call with them.
        """
        ...

    async def roots(self, seconds: float) -> tuple[str, ...]:
        """Returns the file URIs of its roots. Raises the same errors as `ask`."""
        ...
