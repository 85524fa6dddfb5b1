"""Skills that fit what a search for tools asks for.

Skills change at any time and are few: their names and descriptions are ranked anew for each search, and kept in no
index. One is told only when it has most of the words that were asked for, so that a search for tools stays one.
"""

from __future__ import annotations

from collections.abc import Callable

from toolyard.skills.discovery import SkillEntry
from toolyard.skills.library import Shelf
from toolyard_runtime.ranking import asked_words, rank, words_of

_MOST = 3
_SHARE = 0.5


def fitting(shelf: Shelf, visible: Callable[[str], bool], query: str) -> list[SkillEntry]:
    """The few that fit best, the best first; of those of one name the nearest."""
    nearest: dict[str, SkillEntry] = {}
    for entry in shelf.entries():
        if not entry.fault and visible(shelf.path_of(entry)):
            nearest.setdefault(entry.title, entry)
    entries = list(nearest.values())
    texts = [f"{entry.title} {entry.description}" for entry in entries]
    asked = asked_words(query)
    return [
        entries[at]
        for _, at in rank(query, texts, _MOST)
        if len(asked & set(words_of(texts[at]))) >= max(len(asked) * _SHARE, 1)
    ]
