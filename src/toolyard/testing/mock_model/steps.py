"""What a scripted model does when it is asked: it answers, or something goes wrong.

*Answers* (`Turn`, and `Say`, `Think`, `Call`, `BrokenArguments` as short spellings of one) become a turn of the
conversation: who asks again with that turn in the history has come one step further. *Faults* (`Fail`, `Cut`, `Drop`,
`Hang`, `Nonsense`, `Empty`, `TooLong`) leave nothing in the history; each happens `times` times, to as many attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

FOREVER = 1_000_000_000
"""As `times`: more attempts than anybody makes."""
Ends: TypeAlias = Literal["", "length", "refused", "malformed"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them. `cached` is part of `input`, `thinking` is part of `output`."""

    input: int
    output: int
    cached: int = 0
    thinking: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments; a text in place of these is sent as it is, whether or not it is JSON."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Turn:
    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    """Estimated from the request and the answer where it is not said."""
    ends: Ends = ""
    """Why the answer stops: of itself, at the limit of its length, by a filter, or (Gemini only, elsewhere it is an
    ordinary end) because the model wrote a call that the provider could not read."""
    delay: float = 0.0
    """Seconds before each piece of a stream, or before the whole."""


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """Thinks, then says or calls something."""

    text: str
    then: Say | Call | Turn = Say("done")


@dataclass(frozen=True, slots=True)
class BrokenArguments:
    """A call whose arguments are no JSON. Gemini sends arguments as an object: there they are missing."""

    tool: str
    arguments: str = '{"file_path": "a.tx'


@dataclass(frozen=True, slots=True)
class Fail:
    """An error of the API. `message` is the provider's usual one where it is empty."""

    status: int
    retry_after: float | None = None
    message: str = ""
    midway: bool = False
    """Whether it comes as an event in the middle of a stream that began well."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer that breaks off in the middle: the connection is closed."""

    text: str = "This sentence is going to be cut off before it comes to its end"
    is_quiet: bool = False
    """Whether a stream ends as if that were all, as it does behind a proxy that gave up."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed without a word."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until `release()`; the next step answers then."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Nonsense:
    """A stream that begins well and goes on with what is no JSON."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Empty:
    """A well-formed answer with nothing in it."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class TooLong:
    """The provider's own error for a conversation that does not fit."""

    limit: int = 128_000
    sent: int = 131_072
    times: int = 1


AnswerStep: TypeAlias = Turn | Say | Think | Call | BrokenArguments
FaultStep: TypeAlias = Fail | Cut | Drop | Hang | Nonsense | Empty | TooLong
Step: TypeAlias = AnswerStep | FaultStep
DONE = Say("done")


def as_turn(step: AnswerStep) -> Turn:
    """What a short spelling stands for."""
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
