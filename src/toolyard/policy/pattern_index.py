"""An index that finds the patterns that may match a path from the path's names, in a few lookups.

It is only a prefilter: it may return a pattern that does not match, but never omits one that does.
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
    """Returns one regular expression that matches what any of the globs matches."""
    return re.compile("|".join(f"(?:{glob})" for glob in sorted(globs)))


class PatternIndex(Generic[T]):
    """Maps path patterns to values, indexed by the first literal name in each pattern."""

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
        """Returns the values whose patterns may match a path of these names, in the order they were given."""
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
