"""Finding turns by their words, in any store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from toolyard.assistant.threads.store import ExpiredThread, ThreadStore, UnknownThread
from toolyard.assistant.threads.thread import Message, Thread, ThreadHit

_NO_LIMIT = 1_000_000
_CHARS_BEFORE, _CHARS_AFTER = 60, 140
"""Characters around the first word, in an excerpt."""


def search_threads(store: ThreadStore, words: str, most: int) -> tuple[ThreadHit, ...]:
    wanted = words.lower().split()
    hits: list[ThreadHit] = []
    for summary in store.list(_NO_LIMIT) if wanted else ():
        # One that was deleted or has expired since it was listed is none.
        with contextlib.suppress(UnknownThread, ExpiredThread):
            hits += _matching_turns(store.read(summary.id), wanted)
        if len(hits) >= most:
            break
    return tuple(hits[:most])


def _matching_turns(thread: Thread, wanted: list[str]) -> Iterator[ThreadHit]:
    summary = thread.summary
    for number, turn in enumerate(thread.turns, 1):
        said = [(message, message.text.lower()) for message in (turn.asked, turn.answered)]
        if not all(any(word in text for _, text in said) for word in wanted):
            continue
        message, text = max(said, key=lambda each: sum(word in each[1] for word in wanted))
        found = min(at for word in wanted if (at := text.find(word)) >= 0)
        yield ThreadHit(summary, number, message.role, _excerpt(message, found))


def _excerpt(message: Message, found: int) -> str:
    begin, end = max(found - _CHARS_BEFORE, 0), found + _CHARS_AFTER
    cut = " ".join(message.text[begin:end].split())
    return f"{'…' if begin else ''}{cut}{'…' if end < len(message.text) else ''}"
