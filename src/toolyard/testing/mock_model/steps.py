"""The steps of a scripted model: answers and faults.

*Answers* (`Turn`, and `Say`, `Think`, `Call`, `BrokenArguments` as short forms of it) become a turn of the
conversation: a request with that turn in its history gets the next step. *Faults* (`Fail`, `Cut`, `Drop`, `Hang`,
`Nonsense`, `Empty`, `TooLong`) leave nothing in the history; each happens `times` times, to as many attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

FOREVER = 1_000_000_000
"""As `times`: more attempts than any client makes."""
Ends: TypeAlias = Literal["", "length", "refused", "malformed"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of the provider. `cached` is part of `input`, `thinking` is part of `output`."""

    input: int
    output: int
    cached: int = 0
    thinking: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments; arguments given as text are sent unchanged, even if they are not JSON."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Turn:
    """A complete answer of the model."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    """Estimated from request and answer if it is None."""
    ends: Ends = ""
    """Why the answer stops: normally, at the length limit, by a filter, or (Gemini only; a normal end elsewhere)
    because the provider could not parse a call.
    """
    delay: float = 0.0
    """Seconds before each piece of a stream, or before the whole answer."""


@dataclass(frozen=True, slots=True)
class Say:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """Thoughts, followed by a text or a call."""

    text: str
    then: Say | Call | Turn = Say("done")


@dataclass(frozen=True, slots=True)
class BrokenArguments:
    """A call whose arguments are not JSON. Gemini sends arguments as an object: there they are missing."""

    tool: str
    arguments: str = '{"file_path": "a.tx'


@dataclass(frozen=True, slots=True)
class Fail:
    """An API error. An empty `message` means the provider's usual one."""

    status: int
    retry_after: float | None = None
    message: str = ""
    midway: bool = False
    """Whether the error arrives as an event in the middle of a stream."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer that breaks off in the middle: the connection is closed."""

    text: str = "This sentence is going to be cut off before it comes to its end"
    is_quiet: bool = False
    """Whether a stream ends as if it were complete, as behind a proxy that gave up."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Drop:
    """A connection closed without an answer."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until `release()`; then the next step answers."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Nonsense:
    """A stream that begins well and continues with invalid JSON."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Empty:
    """A well-formed answer without content."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class TooLong:
    """The provider's error for a conversation that exceeds the context window."""

    limit: int = 128_000
    sent: int = 131_072
    times: int = 1


AnswerStep: TypeAlias = Turn | Say | Think | Call | BrokenArguments
FaultStep: TypeAlias = Fail | Cut | Drop | Hang | Nonsense | Empty | TooLong
Step: TypeAlias = AnswerStep | FaultStep
DONE = Say("done")


def as_turn(step: AnswerStep) -> Turn:
    """Returns the turn that a short form stands for."""
    match step:
        case Turn():
            return step
        case Say(text):
            return Turn(text)
        case Call():
            return Turn(calls=(step,))
        case BrokenArguments(tool, arguments):
            return Turn(calls=(Call(tool, arguments),))
        case Think(text, then):
            after = as_turn(then)
            return Turn(after.text, text, after.calls, after.usage, after.ends, after.delay)
