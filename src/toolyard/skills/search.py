"""Finds skills that match a search for tools.

Skills are few and change at any time, so their names and descriptions are ranked for each search, without an index. A
skill is included only if it has most of the words of the query, so that tools stay the main result.
"""

from __future__ import annotations

from collections.abc import Callable

from toolyard.skills.discovery import SkillEntry
from toolyard.skills.library import SkillLibrary
from toolyard_runtime.ranking import query_words, rank, stemmed_words

_MAX_RESULTS = 3
_MIN_WORD_SHARE = 0.5


def matching_skills(library: SkillLibrary, visible: Callable[[str], bool], query: str) -> list[SkillEntry]:
    """Returns the best matching skills, the best first; of several with one title, the nearest."""
    nearest: dict[str, SkillEntry] = {}
    for entry in library.entries():
        if not entry.fault and visible(library.path_of(entry)):
            nearest.setdefault(entry.title, entry)
    entries = list(nearest.values())
    texts = [f"{entry.title} {entry.description}" for entry in entries]
    wanted = query_words(query)
    return [
        entries[at]
        for _, at in rank(query, texts, _MAX_RESULTS)
        if len(wanted & set(stemmed_words(texts[at]))) >= max(len(wanted) * _MIN_WORD_SHARE, 1)
    ]
