"""The policy's file rules in the form the sandbox enforces, because a command opens files without asking.

`SandboxRules` says whether commands may not read an existing path (hidden), not write it (write-protected), or not
move it because it contains something write-protected (move-protected). Like the policy, it performs no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from toolyard.core.actions import Action, Effect, Kind
from toolyard.policy.patterns import combine_globs
from toolyard.policy.policy import DEFAULT_PROTECTED, Policy, ProtectedPattern, Roots

_WRITE_TOOL = "Write"
_PROBE_NAME = ".toolyard-any-name"


class SandboxRules:
    """Which existing paths the sandbox has to hide or protect, according to a policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._roots = Roots(policy.workspace, policy.context, policy.extra_roots)
        self._guards = [
            ProtectedPattern.parse(text, home=policy.home) for text in (*DEFAULT_PROTECTED, *policy.protected)
        ]
        for entry in policy.context:
            self._guards += [
                ProtectedPattern.parse(text, home=policy.home, root=entry.path) for text in entry.protected_paths
            ]
        refusing = [rule for rule in policy.rules if rule.effect is not Effect.ALLOW]
        self._write_refusals = [
            rule for rule in refusing if rule.governs(Kind.WRITE, _WRITE_TOOL) and rule.paths is not None
        ]
        self._patterns = [guard.matches for guard in self._guards]
        self._patterns += [rule.paths for rule in self._write_refusals if rule.paths is not None]
        parts = [part for pattern in self._patterns for part in pattern.components]
        self._names = frozenset(part for part in parts if isinstance(part, str))
        globs = frozenset(part.pattern for part in parts if isinstance(part, re.Pattern))
        self._globs = combine_globs(globs) if globs else None
        self.has_hiding_rules = any(rule.governs(Kind.READ, "Read") for rule in refusing)
        """Whether any rule can hide a file. Without one, the scan for hidden files is skipped."""

    def is_writable(self, root: str) -> bool:
        """Whether files of this root may be written at all, with or without approval."""
        action = Action(Kind.WRITE, _WRITE_TOOL, f"{root.rstrip('/')}/{_PROBE_NAME}")
        return self._policy.decide(action).effect is not Effect.DENY

    def hidden_name_filter(self, folder: str) -> Callable[[str], bool] | None:
        """Returns a cheap test for the names in a folder: False means not hidden. None if no rule hides anything."""
        return self._policy.hidden_name_filter(folder) if self.has_hiding_rules else None

    def is_hidden(self, path: str) -> bool:
        return self.has_hiding_rules and not self._policy.is_visible(path)

    def may_match_name(self, name: str) -> bool:
        """Whether an entry of this name may be protected, in a folder that no pattern covers entirely."""
        return name in self._names or (self._globs is not None and self._globs.match(name) is not None)

    def covers_folder(self, folder: str) -> bool:
        """Whether a pattern covers the whole folder, although a rule may except single names in it."""
        view = self._roots.path_view(folder)
        return any(pattern.matches_in_any_root(view) for pattern in self._patterns)

    def is_write_protected(self, path: str) -> bool:
        view = self._roots.path_view(path)
        return any(guard.matches.matches_in_any_root(view) for guard in self._guards) or any(
            rule.matches_path(view) for rule in self._write_refusals
        )

    def is_move_protected(self, path: str) -> bool:
        view = self._roots.path_view(path)
        return any(
            folder.matches_exactly(names)
            for guard in self._guards
            for folder in guard.folders
            for names in folder.name_sequences(view)
        )
