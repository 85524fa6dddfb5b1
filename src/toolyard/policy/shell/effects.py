"""What a command may do, in the words a person is asked with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_WORDS_CHARS: Final = 60
MAX_SHOWN_EFFECTS: Final = 6


class CommandEffect(StrEnum):
    """The value is how the effect reads in a sentence."""

    READS = "reads files"
    WRITES = "writes files"
    DELETES = "deletes files"
    RUNS_CODE = "runs other code"
    RUNS_PROGRAM = "runs a program"
    NETWORK = "uses the network"
    GIT = "changes git history or a remote"
    INSTALLS = "installs packages"
    PERMISSIONS = "changes permissions"
    ENDS_PROCESSES = "ends processes"
    PRIVILEGES = "needs privileges"
    TERMINAL = "needs a terminal"
    BACKGROUND = "runs on in the background"


# What a person has to know first comes first; reading is told only when there is nothing else to tell.
_ORDER: Final = (
    CommandEffect.DELETES,
    CommandEffect.PRIVILEGES,
    CommandEffect.GIT,
    CommandEffect.NETWORK,
    CommandEffect.INSTALLS,
    CommandEffect.PERMISSIONS,
    CommandEffect.ENDS_PROCESSES,
    CommandEffect.WRITES,
    CommandEffect.RUNS_CODE,
    CommandEffect.RUNS_PROGRAM,
    CommandEffect.TERMINAL,
    CommandEffect.BACKGROUND,
    CommandEffect.READS,
)


@dataclass(frozen=True, slots=True)
class ObservedEffect:
    """An effect and the words that show it."""

    effect: CommandEffect
    words: str


def summarize_effects(seen: Iterable[ObservedEffect]) -> str:
    """`deletes files (rm -rf build), uses the network (curl example.org)`; empty when there is nothing to tell."""
    first: dict[CommandEffect, str] = {}
    for one in seen:
        first.setdefault(one.effect, one.words)
    told = [effect for effect in _ORDER if effect in first]
    if len(told) > 1 and told[-1] is CommandEffect.READS:
        told.pop()
    phrases = [f"{effect} ({shorten_words(first[effect])})" for effect in told[:MAX_SHOWN_EFFECTS]]
    return ", ".join(phrases) + (" and more" if len(told) > MAX_SHOWN_EFFECTS else "")


def shorten_words(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= MAX_WORDS_CHARS else line[: MAX_WORDS_CHARS - 3] + "..."
