"""From a thread and a question to what the model is sent: role messages, newest first in what they cost.

Every file appears once, in its newest version: where the thread first showed that version, so that what a provider
has cached stays the same, or with the question when it is new or has changed since. Room is given to the question,
then to its files, then to earlier turns from the newest on, then to the files of those. What finds none is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolyard.assistant.files.context_budget import ShownFile, fit_files
from toolyard.assistant.files.lookup import reread_file
from toolyard.assistant.files.sources import SkippedFile, SourceFile
from toolyard.assistant.secret_findings import masked_hint, masked_note
from toolyard.assistant.threads.thread import FileSeen, Thread, Turn
from toolyard.config.assistant import AssistantLimits, ToolName
from toolyard.core.errors import ValidationError
from toolyard.core.tokens import count_tokens_in_pieces
from toolyard.dispatch.call_context import CallContext
from toolyard.sandbox.output_capture import truncate_middle
from toolyard.snapshots.service.format import pluralize

_FILES_SHARE = 0.75
"""Of the room: what the files of the question take at most where there are earlier turns too."""
_EVIDENCE_SHARE = 1 / 3
_MESSAGE_OVERHEAD = 8
"""Tokens of a message beside its text."""
_CHARS_PER_TOKEN = 4
"""Usually: how much of a text that is too long is tried first, and less from there on."""
_SHRINK_FACTOR = 0.9
_MIN_SHOWN_CHARS = 200
"""Characters: less than that tells nobody anything."""


@dataclass(frozen=True, slots=True)
class Question:
    tool: ToolName
    text: str
    """The request. It is kept."""
    answer_format: str = ""
    """How the answer is to be written. Not kept."""
    evidence: str = ""
    """What can be found out again: an outline, what linters say. Not kept."""
    sources: Sequence[SourceFile] = ()
    skipped: Sequence[SkippedFile] = ()
    field: str = "prompt"
    """The argument to blame for words that are too long."""


@dataclass(frozen=True, slots=True)
class ComposedPrompt:
    question: str
    """What of the question is kept."""
    turns: tuple[tuple[str, str], ...]
    """Those before: what was asked and answered."""
    final_message: str
    """What is asked now."""
    files_shown: tuple[FileSeen, ...]
    """The files that come with it."""
    files: tuple[str, ...]
    """All that the model is shown whole; of others `skipped` tells."""
    skipped: tuple[SkippedFile, ...]
    omitted_turns: int
    """How many of the oldest turns found no room."""
    omitted_files: int
    """How many files found none, whole or not."""
    outlined_files: int
    """How many files are shown as outlines."""
    notes: tuple[str, ...]
    """What the caller has to know of the files, beside what is missing."""


def compose_prompt(
    thread: Thread, question: Question, room: int, ctx: CallContext, limits: AssistantLimits
) -> ComposedPrompt:
    words = _join_nonempty([masked_hint(question.sources), question.text, question.answer_format])
    room -= _count_question_tokens(words, question.field, room)
    evidence = _cut_to_tokens(question.evidence, int(room * _EVIDENCE_SHARE))
    room -= count_tokens_in_pieces(evidence)
    share = int(room * _FILES_SHARE) if thread.turns else room
    now = fit_files(question.sources, share, ctx.check_time)
    room -= now.tokens
    kept = _count_newest_turns(thread.turns, room)
    room -= sum(_turn_tokens(turn) for turn in thread.turns[len(thread.turns) - kept :])
    known = _last_shown_files(thread.turns, {source.path for source in question.sources})
    sources, gone = _reread_files(known, ctx, limits)
    before = fit_files(sources, room, ctx.check_time)
    first = len(thread.turns) - kept
    placed, moved = _place_files(before.shown, known, first)
    turns = tuple(
        (_join_nonempty([*placed.get(number, ()), turn.asked.text]), turn.answered.text)
        for number, turn in enumerate(thread.turns[first:], first)
    )
    shown = [each for each, _ in moved] + list(now.shown)
    last = _join_nonempty(
        [
            f"[Left out for want of room: {describe_omitted_turns(first)}.]" if first else "",
            evidence,
            *(_with_change_note(*each) for each in moved),
            *(s.text for s in now.shown),
            words,
        ]
    )
    return ComposedPrompt(
        question.text,
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


def _count_question_tokens(words: str, field: str, room: int) -> int:
    tokens = count_tokens_in_pieces(words) + _MESSAGE_OVERHEAD
    if tokens > room:
        raise ValidationError.of(
            field,
            f"has {tokens:,} tokens, and there is room for {max(room, 0):,}",
            hint="Say it in fewer words; what is in a file can be named under `files`, by the tools that take them.",
        )
    return tokens


def _cut_to_tokens(text: str, tokens: int) -> str:
    """The text, or its beginning and end where it takes more than that; nothing where not even those find room."""
    chars = tokens * _CHARS_PER_TOKEN
    shown = truncate_middle(text, chars)
    while (taken := count_tokens_in_pieces(shown)) > tokens:
        chars = int(chars * tokens / taken * _SHRINK_FACTOR)
        if chars < _MIN_SHOWN_CHARS:
            return ""
        shown = truncate_middle(text, chars)
    return shown


def _turn_tokens(turn: Turn) -> int:
    return sum(
        (said.tokens or count_tokens_in_pieces(said.text)) + _MESSAGE_OVERHEAD for said in (turn.asked, turn.answered)
    )


def _count_newest_turns(turns: Sequence[Turn], room: int) -> int:
    """How many of the newest turns there is room for."""
    for count, turn in enumerate(reversed(turns)):
        room -= _turn_tokens(turn)
        if room < 0:
            return count
    return len(turns)


def _last_shown_files(turns: Sequence[Turn], other_than: set[str]) -> dict[str, tuple[int, str]]:
    """Where the thread has shown each file last, and which version: the newest first."""
    found: dict[str, tuple[int, str]] = {}
    for number in range(len(turns) - 1, -1, -1):
        for seen in turns[number].asked.files:
            if seen.path not in other_than:
                found.setdefault(seen.path, (number, seen.digest))
    return found


def _reread_files(
    known: Mapping[str, tuple[int, str]], ctx: CallContext, limits: AssistantLimits
) -> tuple[list[SourceFile], list[SkippedFile]]:
    sources: list[SourceFile] = []
    gone: list[SkippedFile] = []
    for count, (path, (_, digest)) in enumerate(known.items()):
        ctx.check_time()
        if count >= limits.files:
            gone.append(
                SkippedFile(path, f"was shown in an earlier turn; only the {limits.files} newest are shown again")
            )
            continue
        read = reread_file(ctx, path, digest, limits)
        if isinstance(read, SkippedFile):
            gone.append(read)
        else:
            sources.append(read)
    return sources, gone


def _place_files(
    shown: Sequence[ShownFile], known: Mapping[str, tuple[int, str]], first: int
) -> tuple[dict[int, list[str]], list[tuple[ShownFile, str]]]:
    """What stays where it was shown before, by turn; and what comes with the question, with a word on why."""
    placed: dict[int, list[str]] = {}
    moved: list[tuple[ShownFile, str]] = []
    for each in shown:
        number, digest = known[each.path]
        if each.digest == digest and number >= first:
            placed.setdefault(number, []).append(each.text)
        else:
            moved.append(
                (each, "" if each.digest == digest else f"{each.path} has changed; this is its newest version:")
            )
    return placed, moved


def _with_change_note(shown: ShownFile, news: str) -> str:
    return f"{news}\n{shown.text}" if news else shown.text


def describe_omitted_turns(turns: int) -> str:
    """In words."""
    return f"{pluralize(turns, 'earlier turn')} of this thread"


def _join_nonempty(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
