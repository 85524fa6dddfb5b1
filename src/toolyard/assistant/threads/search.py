"""Searches the turns of any thread store for words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from toolyard.assistant.threads.store import ExpiredThread, ThreadStore, UnknownThread
from toolyard.assistant.threads.thread import Message, Thread, ThreadHit

_NO_LIMIT = 1_000_000
_CHARS_BEFORE, _CHARS_AFTER = 60, 140
"""Characters before and after the first match, in an excerpt."""


def search_threads(store: ThreadStore, words: str, most: int) -> tuple[ThreadHit, ...]:
    """Returns turns that contain all of the words, newest threads first."""
    wanted = words.lower().split()
    hits: list[ThreadHit] = []
    for summary in store.list(_NO_LIMIT) if wanted else ():
        # A thread may be deleted or expire after it was listed.
        with contextlib.suppress(UnknownThread, ExpiredThread):
            hits += _matching_turns(store.read(summary.id), wanted)
        if len(hits) >= most:
            break
    return tuple(hits[:most])


def _matching_turns(thread: Thread, wanted: list[str]) -> Iterator[ThreadHit]:
    summary = thread.summary
    for number, turn in enumerate(thread.turns, 1):
        messages = [(message, message.text.lower()) for message in (turn.asked, turn.answered)]
        if not all(any(word in text for _, text in messages) for word in wanted):
            continue
        message, text = max(messages, key=lambda each: sum(word in each[1] for word in wanted))
        found = min(at for word in wanted if (at := text.find(word)) >= 0)
        yield ThreadHit(summary, number, message.role, _excerpt(message, found))


def _excerpt(message: Message, found: int) -> str:
    begin, end = max(found - _CHARS_BEFORE, 0), found + _CHARS_AFTER
    cut = " ".join(message.text[begin:end].split())
    return f"{'…' if begin else ''}{cut}{'…' if end < len(message.text) else ''}"
