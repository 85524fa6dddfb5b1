"""Skills that fit what a search for tools asks for.

Skills change at any time and are few: their names and descriptions are ranked anew for each search, and kept in no
index. One is told only when it has most of the words that were asked for, so that a search for tools stays one.
"""

from __future__ import annotations

from collections.abc import Callable

from toolyard.skills.discovery import SkillEntry
from toolyard.skills.library import SkillLibrary
from toolyard_runtime.ranking import query_words, rank, stemmed_words

_MAX_RESULTS = 3
_MIN_WORD_SHARE = 0.5


def matching_skills(library: SkillLibrary, visible: Callable[[str], bool], query: str) -> list[SkillEntry]:
    """The few that fit best, the best first; of those of one name the nearest."""
    nearest: dict[str, SkillEntry] = {}
    for entry in library.entries():
        if not entry.fault and visible(library.path_of(entry)):
            nearest.setdefault(entry.title, entry)
    entries = list(nearest.values())
    texts = [f"{entry.title} {entry.description}" for entry in entries]
    asked = query_words(query)
    return [
        entries[at]
        for _, at in rank(query, texts, _MAX_RESULTS)
        if len(asked & set(stemmed_words(texts[at]))) >= max(len(asked) * _MIN_WORD_SHARE, 1)
    ]
