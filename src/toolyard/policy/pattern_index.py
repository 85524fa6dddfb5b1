"""Which of many patterns can speak to a path at all, told from its names in a few look-ups.

A prefilter and nothing more: it may name a pattern that then does not match, never leave out one that does.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolyard.policy.patterns import PathPattern

T = TypeVar("T")
MAX_CACHED_COMBINATIONS = 1_024


@functools.lru_cache(maxsize=MAX_CACHED_COMBINATIONS)
def combine_globs(globs: frozenset[str]) -> re.Pattern[str]:
    """One expression for many names' patterns."""
    return re.compile("|".join(f"(?:{glob})" for glob in sorted(globs)))


class PatternIndex(Generic[T]):
    """Things that hold where a pattern matches, found by the first fixed name in their patterns."""

    def __init__(self, entries: Iterable[tuple[PathPattern | None, T]]) -> None:
        self._by_name: dict[str, list[tuple[int, T]]] = {}
        self._by_glob: list[tuple[int, T]] = []
        self._always: list[tuple[int, T]] = []
        globs: set[str] = set()
        for position, (pattern, thing) in enumerate(entries):
            components = pattern.components if pattern is not None else ()
            fixed = next((component for component in components if isinstance(component, str)), None)
            glob = next((component for component in components if isinstance(component, re.Pattern)), None)
            if fixed is not None:
                self._by_name.setdefault(fixed, []).append((position, thing))
            elif glob is not None:
                self._by_glob.append((position, thing))
                globs.add(glob.pattern)
            else:
                self._always.append((position, thing))
        self._globs = combine_globs(frozenset(globs)) if globs else None

    def candidates(self, names: Iterable[str]) -> list[T]:
        """What may hold for a path of these names, in the order it was given."""
        found = list(self._always)
        unmatched = self._globs
        for name in dict.fromkeys(names):
            if name in self._by_name:
                found.extend(self._by_name[name])
            if unmatched is not None and unmatched.match(name):
                found.extend(self._by_glob)
                unmatched = None
        if len(found) > 1:
            found.sort(key=_position)
        return [thing for _, thing in found]


def _position(entry: tuple[int, object]) -> int:
    return entry[0]
