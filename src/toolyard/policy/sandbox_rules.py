"""What the policy says about files, for the walls of a sandbox: a command asks nobody before it opens a file.

`Seals` tells of a path that exists whether commands may not read it (hidden), not write it (sealed), or not move it
because something inside it is sealed (pinned). Pure, like the policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from toolyard.core.actions import Action, Effect, Kind
from toolyard.policy.pattern_index import any_of
from toolyard.policy.policy import Policy
from toolyard.policy.roots import DEFAULT_PROTECTED, Guard, Roots

_WRITING = "Write"
_ANY_NAME = ".toolyard-any-name"


class Seals:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._roots = Roots(policy.workspace, policy.context, policy.extra_roots)
        self._guards = [Guard.of(text, home=policy.home) for text in (*DEFAULT_PROTECTED, *policy.protected)]
        for entry in policy.context:
            self._guards += [Guard.of(text, home=policy.home, root=entry.path) for text in entry.protected_paths]
        refusing = [rule for rule in policy.rules if rule.effect is not Effect.ALLOW]
        self._unwritten = [rule for rule in refusing if rule.governs(Kind.WRITE, _WRITING) and rule.paths is not None]
        self._patterns = [guard.matches for guard in self._guards]
        self._patterns += [rule.paths for rule in self._unwritten if rule.paths is not None]
        parts = [part for pattern in self._patterns for part in pattern.components]
        self._names = frozenset(part for part in parts if isinstance(part, str))
        globs = frozenset(part.pattern for part in parts if isinstance(part, re.Pattern))
        self._globs = any_of(globs) if globs else None
        self.hides_something = any(rule.governs(Kind.READ, "Read") for rule in refusing)
        """Whether there is a rule that can hide a file. Without one nobody has to look for any."""

    def writable(self, root: str) -> bool:
        """Whether files of this root may be written at all, asked or unasked."""
        action = Action(Kind.WRITE, _WRITING, f"{root.rstrip('/')}/{_ANY_NAME}")
        return self._policy.decide(action).effect is not Effect.DENY

    def may_hide_in(self, folder: str) -> Callable[[str], bool] | None:
        """A quick test for the names in a folder: what it is False for is not hidden. None when nothing is."""
        return self._policy.may_be_hidden(folder) if self.hides_something else None

    def hidden(self, path: str) -> bool:
        return self.hides_something and not self._policy.visible(path)

    def may_speak_of(self, name: str) -> bool:
        """Whether something of this name may be sealed or pinned, in a folder that no pattern takes in whole."""
        return name in self._names or (self._globs is not None and self._globs.match(name) is not None)

    def take_in(self, folder: str) -> bool:
        """Whether a pattern takes in all of a folder, though a rule may spare single names in it."""
        place = self._roots.place(folder)
        return any(pattern.widely(place) for pattern in self._patterns)

    def sealed(self, path: str) -> bool:
        place = self._roots.place(path)
        return any(guard.matches.widely(place) for guard in self._guards) or any(
            rule.covers(place) for rule in self._unwritten
        )

    def pinned(self, path: str) -> bool:
        place = self._roots.place(path)
        return any(
            folder.matches_exactly(names)
            for guard in self._guards
            for folder in guard.folders
            for names in folder.sequences(place)
        )
