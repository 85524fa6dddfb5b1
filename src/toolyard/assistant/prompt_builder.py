"""From a thread and a question to what the model is sent: role messages, newest first in what they cost.

Every file appears once, in its newest version: where the thread first showed that version, so that what a provider
has cached stays the same, or with the question when it is new or has changed since. Room is given to the question,
then to its files, then to earlier turns from the newest on, then to the files of those. What finds none is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolyard.assistant.files.context_budget import Shown, fit
from toolyard.assistant.files.lookup import read_again
from toolyard.assistant.files.sources import Skipped, Source
from toolyard.assistant.secret_findings import masked_hint, masked_note
from toolyard.assistant.threads.thread import FileSeen, Thread, Turn
from toolyard.config.assistant import AssistantLimits, ToolName
from toolyard.core.errors import ValidationError
from toolyard.core.tokens import count_in_pieces
from toolyard.dispatch.call_context import Gate
from toolyard.sandbox.output_capture import cut
from toolyard.snapshots.service.format import counted

_FOR_FILES = 0.75
"""Of the room: what the files of the question take at most where there are earlier turns too."""
_FOR_EVIDENCE = 1 / 3
_AROUND = 8
"""Tokens of a message beside its text."""
_CHARS_A_TOKEN = 4
"""Usually: how much of a text that is too long is tried first, and less from there on."""
_SPARING = 0.9
_LEAST_SHOWN = 200
"""Characters: less than that tells nobody anything."""


@dataclass(frozen=True, slots=True)
class Question:
    tool: ToolName
    words: str
    """The request. It is kept."""
    shape: str = ""
    """How the answer is to be written. Not kept."""
    evidence: str = ""
    """What can be found out again: an outline, what linters say. Not kept."""
    sources: Sequence[Source] = ()
    skipped: Sequence[Skipped] = ()
    field: str = "prompt"
    """The argument to blame for words that are too long."""


@dataclass(frozen=True, slots=True)
class Composed:
    words: str
    """What of the question is kept."""
    turns: tuple[tuple[str, str], ...]
    """Those before: what was asked and answered."""
    last: str
    """What is asked now."""
    seen: tuple[FileSeen, ...]
    """The files that come with it."""
    files: tuple[str, ...]
    """All that the model is shown whole; of others `skipped` tells."""
    skipped: tuple[Skipped, ...]
    left_out: int
    """How many of the oldest turns found no room."""
    homeless: int
    """How many files found none, whole or not."""
    outlined: int
    """How many files are shown as outlines."""
    notes: tuple[str, ...]
    """What the caller has to know of the files, beside what is missing."""


def compose(thread: Thread, question: Question, room: int, gate: Gate, limits: AssistantLimits) -> Composed:
    words = _joined([masked_hint(question.sources), question.words, question.shape])
    room -= _counted(words, question.field, room)
    evidence = _within(question.evidence, int(room * _FOR_EVIDENCE))
    room -= count_in_pieces(evidence)
    share = int(room * _FOR_FILES) if thread.turns else room
    now = fit(question.sources, share, gate.check_time)
    room -= now.tokens
    kept = _newest(thread.turns, room)
    room -= sum(_cost(turn) for turn in thread.turns[len(thread.turns) - kept :])
    known = _latest(thread.turns, {source.path for source in question.sources})
    sources, gone = _read_again(known, gate, limits)
    before = fit(sources, room, gate.check_time)
    first = len(thread.turns) - kept
    placed, moved = _placed(before.shown, known, first)
    turns = tuple(
        (_joined([*placed.get(number, ()), turn.asked.text]), turn.answered.text)
        for number, turn in enumerate(thread.turns[first:], first)
    )
    shown = [each for each, _ in moved] + list(now.shown)
    last = _joined(
        [
            f"[Left out for want of room: {left_out(first)}.]" if first else "",
            evidence,
            *(_with_news(*each) for each in moved),
            *(s.text for s in now.shown),
            words,
        ]
    )
    return Composed(
        question.words,
        turns,
        last,
        tuple(FileSeen(each.path, each.digest) for each in shown),
        tuple(dict.fromkeys(each.path for each in (*now.shown, *before.shown) if each.is_whole)),
        (*question.skipped, *now.skipped, *before.skipped, *gone),
        first,
        len(question.sources) + len(sources) - len(now.shown) - len(before.shown),
        sum(not each.is_whole for each in (*now.shown, *before.shown)),
        masked_note(question.sources),
    )


def _counted(words: str, field: str, room: int) -> int:
    tokens = count_in_pieces(words) + _AROUND
    if tokens > room:
        raise ValidationError.of(
            field,
            f"has {tokens:,} tokens, and there is room for {max(room, 0):,}",
            hint="Say it in fewer words; what is in a file can be named under `files`, by the tools that take them.",
        )
    return tokens


def _within(text: str, tokens: int) -> str:
    """The text, or its beginning and end where it takes more than that; nothing where not even those find room."""
    chars = tokens * _CHARS_A_TOKEN
    shown = cut(text, chars)
    while (taken := count_in_pieces(shown)) > tokens:
        chars = int(chars * tokens / taken * _SPARING)
        if chars < _LEAST_SHOWN:
            return ""
        shown = cut(text, chars)
    return shown


def _cost(turn: Turn) -> int:
    return sum((said.tokens or count_in_pieces(said.text)) + _AROUND for said in (turn.asked, turn.answered))


def _newest(turns: Sequence[Turn], room: int) -> int:
    """How many of the newest turns there is room for."""
    for count, turn in enumerate(reversed(turns)):
        room -= _cost(turn)
        if room < 0:
            return count
    return len(turns)


def _latest(turns: Sequence[Turn], other_than: set[str]) -> dict[str, tuple[int, str]]:
    """Where the thread has shown each file last, and which version: the newest first."""
    found: dict[str, tuple[int, str]] = {}
    for number in range(len(turns) - 1, -1, -1):
        for seen in turns[number].asked.files:
            if seen.path not in other_than:
                found.setdefault(seen.path, (number, seen.digest))
    return found


def _read_again(
    known: Mapping[str, tuple[int, str]], gate: Gate, limits: AssistantLimits
) -> tuple[list[Source], list[Skipped]]:
    sources: list[Source] = []
    gone: list[Skipped] = []
    for count, (path, (_, digest)) in enumerate(known.items()):
        gate.check_time()
        if count >= limits.files:
            gone.append(
                Skipped(path, f"was shown in an earlier turn; only the {limits.files} newest are shown again")
            )
            continue
        read = read_again(gate, path, digest, limits)
        if isinstance(read, Skipped):
            gone.append(read)
        else:
            sources.append(read)
    return sources, gone


def _placed(
    shown: Sequence[Shown], known: Mapping[str, tuple[int, str]], first: int
) -> tuple[dict[int, list[str]], list[tuple[Shown, str]]]:
    """What stays where it was shown before, by turn; and what comes with the question, with a word on why."""
    placed: dict[int, list[str]] = {}
    moved: list[tuple[Shown, str]] = []
    for each in shown:
        number, digest = known[each.path]
        if each.digest == digest and number >= first:
            placed.setdefault(number, []).append(each.text)
        else:
            moved.append(
                (each, "" if each.digest == digest else f"{each.path} has changed; this is its newest version:")
            )
    return placed, moved


def _with_news(shown: Shown, news: str) -> str:
    return f"{news}\n{shown.text}" if news else shown.text


def left_out(turns: int) -> str:
    """In words."""
    return f"{counted(turns, 'earlier turn')} of this thread"


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
