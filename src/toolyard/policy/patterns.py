"""Path patterns in gitignore syntax, matched component by component in time linear in path and pattern.

    *.md            that name at any depth            src/*.py        from the root on, as it has a slash
    /build          the root's own `build`            **/test/**      at any depth; `**` also matches nothing
    //etc/ssl/**    an absolute path                  ~/.ssh          an absolute path in the user's home

A pattern that matches a folder matches everything in it. `*`, `?` and `[...]` stay inside one name; matching is
case-sensitive. A relative pattern starts at the root that contains the path: see `PathView`.

Deny, ask and protected patterns match in every root (and unanchored ones anywhere); allow patterns match in the
workspace only. An ambiguous pattern therefore never grants access. For the same reason a refusing pattern with a
single leading slash, which other tools read as "absolute", matches both ways.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from toolyard.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PATTERN_CHARS: Final = 1_000
MAX_COMPONENTS: Final = 64
MAX_CACHED_COMBINATIONS: Final = 1_024

_WILD: Final = re.compile(r"[*?\[]")
ANY_DEPTH: Final = None
"""The `**` component."""

T = TypeVar("T")
Component = str | re.Pattern[str] | None
States = frozenset[int]


@dataclass(frozen=True, slots=True)
class PathView:
    """A path as patterns see it: its names below `/` and below each root that contains it."""

    path: str
    absolute: tuple[str, ...]
    workspace: tuple[str, ...] | None
    """The names below the workspace; None if the path is outside it."""
    roots: tuple[tuple[str, ...], ...]
    """The names below every root that contains the path, including the workspace."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A parsed path pattern, matched as a nondeterministic automaton over path components."""

    text: str
    is_absolute: bool
    is_anchored: bool
    components: tuple[Component, ...] = field(repr=False)
    also_absolute: bool = False
    """The pattern has a single leading slash: refusals also read it as an absolute path."""

    @property
    def start_states(self) -> States:
        return self._epsilon_closure([0])

    def advance(self, states: States, name: str) -> States:
        """Returns the states after one more name. A complete match stays complete for everything below it."""
        end = len(self.components)
        if end in states:
            return states
        reached: list[int] = []
        for state in states:
            component = self.components[state]
            if component is None:  # any depth
                reached.append(state)
            elif isinstance(component, str):
                if component == name:
                    reached.append(state + 1)
            elif component.match(name):
                reached.append(state + 1)
        return self._epsilon_closure(reached)

    def accepts(self, states: States) -> bool:
        return len(self.components) in states

    def matches(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches the path with these names, or one of its parent folders."""
        states = self.start_states
        for name in names:
            states = self.advance(states, name)
            if not states:
                return False
            if self.accepts(states):
                return True
        return self.accepts(states)

    def states_after(self, names: Iterable[str]) -> States:
        states = self.start_states
        for name in names:
            states = self.advance(states, name)
        return states

    def final_components(self, states: States) -> list[str | re.Pattern[str]]:
        """Returns the components of which the next name must match one to complete the match."""
        end = len(self.components)
        return [
            component
            for state in states
            if state < end and (component := self.components[state]) is not None
            if end in self._epsilon_closure([state + 1])
        ]

    def matches_exactly(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches the path with these names itself, not one of its parent folders."""
        end = len(self.components)
        states = self.start_states
        for name in names:
            states = self.advance(states - {end}, name)
        return end in states

    def anchored_at(self, root: str) -> PathPattern:
        """Returns the pattern restricted to one root."""
        if self.is_absolute:
            return self
        names = tuple(name for name in root.split("/") if name)
        return PathPattern(self.text, is_absolute=True, is_anchored=True, components=names + self.components)

    def matches_in_any_root(self, view: PathView) -> bool:
        return any(self.matches(names) for names in self.name_sequences(view))

    def matches_in_workspace(self, view: PathView) -> bool:
        if self.is_absolute:
            return self.matches(view.absolute)
        return view.workspace is not None and self.matches(view.workspace)

    def name_sequences(self, view: PathView) -> tuple[tuple[str, ...], ...]:
        """Returns the name sequences that a refusing pattern is matched against."""
        if self.is_absolute:
            return (view.absolute,)
        if self.also_absolute or (not view.roots and not self.is_anchored):
            return (*view.roots, view.absolute)
        return view.roots

    def parent_folder_patterns(self) -> tuple[PathPattern, ...]:
        """Returns patterns of the literally named parent folders: moving one of them would move the match too."""
        return tuple(
            PathPattern(self.text, self.is_absolute, self.is_anchored, self.components[:length], self.also_absolute)
            for length in range(1, len(self.components))
            if isinstance(self.components[length - 1], str)
        )

    def _epsilon_closure(self, states: Iterable[int]) -> States:
        """Adds the states reachable without consuming a name: `**` also matches nothing."""
        closed: set[int] = set()
        for state in states:
            closed.add(state)
            while state < len(self.components) and self.components[state] is ANY_DEPTH:
                state += 1
                closed.add(state)
        return frozenset(closed)


def parse_pattern(text: str, *, home: str | None = None) -> PathPattern:
    """Parses a pattern. Raises ConfigError for invalid text and for text that would not mean what it seems to."""
    _check_pattern_text(text)
    body, is_absolute, also_absolute = text, False, False
    if text.startswith("~/") or text == "~":
        if home is None:
            raise ConfigError(
                f'the pattern "{text}" needs a home folder.', hint="Write the absolute path: //home/..."
            )
        body, is_absolute = home + text[1:], True
    elif text.startswith("//"):
        is_absolute = True
    elif text.startswith("/"):
        also_absolute = True
    names = [name for name in body.split("/") if name not in {"", "."}]
    if ".." in names:
        raise ConfigError(
            f'the pattern "{text}" contains "..".', hint="Write an absolute path with two slashes: //etc/hosts."
        )
    if len(names) > MAX_COMPONENTS:
        raise ConfigError(f'the pattern "{text}" has more than {MAX_COMPONENTS} parts.', hint="Shorten it with `**`.")
    is_anchored = is_absolute or "/" in text.rstrip("/") or text in {"/", "."}
    if not is_anchored:
        names.insert(0, "**")
    components: list[Component] = []
    for name in names:
        component = _parse_component(name)
        if component is not ANY_DEPTH or not components or components[-1] is not ANY_DEPTH:
            components.append(component)
    is_anchored = is_anchored and bool(components) and components[0] is not ANY_DEPTH
    return PathPattern(text, is_absolute, is_anchored, tuple(components), also_absolute)


def _check_pattern_text(text: str) -> None:
    if not text.strip() or text != text.strip():
        raise ConfigError(f'the pattern "{text}" is empty or has surrounding spaces.', hint="Example: src/**/*.py")
    if len(text) > MAX_PATTERN_CHARS:
        raise ConfigError(f"a pattern is longer than {MAX_PATTERN_CHARS} characters.", hint="Shorten it with `**`.")
    if "\0" in text or "\\" in text:
        raise ConfigError(f'the pattern "{text}" contains a backslash or NUL.', hint="Write [*] for a literal star.")
    if text.startswith("!"):
        raise ConfigError(f'the pattern "{text}" starts with "!".', hint="Use a rule of the other kind instead.")
    if "{" in text or "}" in text:
        raise ConfigError(f'the pattern "{text}" has braces.', hint="Write one rule for each alternative.")


def _parse_component(name: str) -> Component:
    if name == "**":
        return ANY_DEPTH
    if not _WILD.search(name):
        return name
    # fnmatch's translation cannot backtrack: every star becomes an atomic shortest match.
    return re.compile(fnmatch.translate(name.replace("[^", "[!")))


@functools.lru_cache(maxsize=MAX_CACHED_COMBINATIONS)
def combine_globs(globs: frozenset[str]) -> re.Pattern[str]:
    """Returns one regular expression that matches what any of the globs matches."""
    return re.compile("|".join(f"(?:{glob})" for glob in sorted(globs)))


class PatternIndex(Generic[T]):
    """Maps path patterns to values, indexed by the first literal name in each pattern.

    It is only a prefilter: it may return a pattern that does not match, but never omits one that does.
    """

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
