"""The possible effects of a command, worded for the approval question."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_WORDS_CHARS: Final = 60
MAX_SHOWN_EFFECTS: Final = 6


class CommandEffect(StrEnum):
    """An effect of a command. The value is its predicate in a sentence."""

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


# Most important first; reading is mentioned only if there is no other effect.
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
    """An effect and the words of the command that cause it."""

    effect: CommandEffect
    words: str


def summarize_effects(seen: Iterable[ObservedEffect]) -> str:
    """Returns `deletes files (rm -rf build), uses the network (curl example.org)`; empty if there are no effects."""
    first: dict[CommandEffect, str] = {}
    for one in seen:
        first.setdefault(one.effect, one.words)
    shown = [effect for effect in _ORDER if effect in first]
    if len(shown) > 1 and shown[-1] is CommandEffect.READS:
        shown.pop()
    phrases = [f"{effect} ({shorten_words(first[effect])})" for effect in shown[:MAX_SHOWN_EFFECTS]]
    return ", ".join(phrases) + (" and more" if len(shown) > MAX_SHOWN_EFFECTS else "")


def shorten_words(words: str) -> str:
    """Returns the words in one line, shortened for display."""
    line = " ".join(words.split())
    return line if len(line) <= MAX_WORDS_CHARS else line[: MAX_WORDS_CHARS - 3] + "..."
