"""Composes what the model is sent from a thread and a question, within a token budget.

Every file appears once, in its newest version: where the thread first showed that version, so that the provider's
prompt cache stays valid, or with the question if it is new or has changed. Tokens are assigned to the question, then
to its files, then to earlier turns from the newest on, then to their files. What does not fit is reported.
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
"""Largest share of the budget for the question's files if there are earlier turns."""
_EVIDENCE_SHARE = 1 / 3
_MESSAGE_OVERHEAD = 8
"""Tokens of a message besides its text."""
_CHARS_PER_TOKEN = 4
"""Typical value: the first estimate for cutting a text, which is then cut further if needed."""
_SHRINK_FACTOR = 0.9
_MIN_SHOWN_CHARS = 200
"""A shorter excerpt is useless and is left out."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the model, with its files."""

    tool: ToolName
    text: str
    """The request. It is stored in the thread."""
    answer_format: str = ""
    """How the answer should be written. Not stored."""
    evidence: str = ""
    """What can be computed again: an outline, findings of linters. Not stored."""
    sources: Sequence[SourceFile] = ()
    skipped: Sequence[SkippedFile] = ()
    field: str = "prompt"
    """The argument to name in the error if the text is too long."""


@dataclass(frozen=True, slots=True)
class ComposedPrompt:
    """The messages for the model, and what was left out of them."""

    question: str
    """The part of the question that is stored."""
    turns: tuple[tuple[str, str], ...]
    """Earlier turns: question and answer."""
    final_message: str
    """The message that asks the question."""
    files_shown: tuple[FileSeen, ...]
    """The files that come with it."""
    files: tuple[str, ...]
    """All files that the model is shown whole; `skipped` lists the others."""
    skipped: tuple[SkippedFile, ...]
    omitted_turns: int
    """Number of oldest turns that did not fit."""
    omitted_files: int
    """Number of files that did not fit at all."""
    outlined_files: int
    """Number of files that are shown as outlines."""
    notes: tuple[str, ...]
    """What the caller has to know about the files, besides what is missing."""


def compose_prompt(
    thread: Thread, question: Question, room: int, ctx: CallContext, limits: AssistantLimits
) -> ComposedPrompt:
    """Composes the prompt for a question in at most `room` tokens.

    Raises ValidationError if the question alone is longer.
    """
    question_text = _join_nonempty([masked_hint(question.sources), question.text, question.answer_format])
    room -= _count_question_tokens(question_text, question.field, room)
    evidence = _cut_to_tokens(question.evidence, int(room * _EVIDENCE_SHARE))
    room -= count_tokens_in_pieces(evidence)
    share = int(room * _FILES_SHARE) if thread.turns else room
    now = fit_files(question.sources, share, ctx.check_time)
    room -= now.tokens
    turn_count = _count_newest_turns(thread.turns, room)
    room -= sum(_turn_tokens(turn) for turn in thread.turns[len(thread.turns) - turn_count :])
    known = _last_shown_files(thread.turns, {source.path for source in question.sources})
    sources, gone = _reread_files(known, ctx, limits)
    before = fit_files(sources, room, ctx.check_time)
    first = len(thread.turns) - turn_count
    placed, moved = _place_files(before.shown, known, first)
    turns = tuple(
        (_join_nonempty([*placed.get(number, ()), turn.asked.text]), turn.answered.text)
        for number, turn in enumerate(thread.turns[first:], first)
    )
    shown = [each for each, _ in moved] + list(now.shown)
    last = _join_nonempty(
        [
            f"[Left out because of the token limit: {describe_omitted_turns(first)}.]" if first else "",
            evidence,
            *(_with_change_note(*each) for each in moved),
            *(s.text for s in now.shown),
            question_text,
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
            f"has {tokens:,} tokens; the limit is {max(room, 0):,}",
            hint="Shorten it; name long content as `files`, in tools that accept them.",
        )
    return tokens


def _cut_to_tokens(text: str, tokens: int) -> str:
    """Returns the text, or its beginning and end if it is too long; empty if not even those fit."""
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
        (message.tokens or count_tokens_in_pieces(message.text)) + _MESSAGE_OVERHEAD
        for message in (turn.asked, turn.answered)
    )


def _count_newest_turns(turns: Sequence[Turn], room: int) -> int:
    """Returns how many of the newest turns fit."""
    for count, turn in enumerate(reversed(turns)):
        room -= _turn_tokens(turn)
        if room < 0:
            return count
    return len(turns)


def _last_shown_files(turns: Sequence[Turn], other_than: set[str]) -> dict[str, tuple[int, str]]:
    """Returns for each file the turn that showed it last and the digest of that version, newest first."""
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
    """Separates files that stay in their earlier turn from those that come with the question, with a note."""
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
    """Describes the number of omitted turns."""
    return f"{pluralize(turns, 'earlier turn')} of this thread"


def _join_nonempty(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
