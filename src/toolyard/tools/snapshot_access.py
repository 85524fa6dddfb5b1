"""What one call may see and write of a snapshot: the policy on every path, as if it were the file there.

A snapshot holds what lay at a path, so whoever may not read the path now may not read it in a snapshot either, and
a restore writes only where this call may write.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import SecurityError
from toolyard.core.paths import beneath
from toolyard.snapshots import Change

if TYPE_CHECKING:
    from toolyard.dispatch.call_context import Gate


class Reach:
    def __init__(self, gate: Gate, root: str) -> None:
        """`root` is the folder that the snapshots are of."""
        self._gate = gate
        self._root = root
        self._answered: set[str] | None = None

    def named(self, path: str, *kinds: Kind) -> bytes:
        """A path as the caller wrote it, relative to the folder, if this call may do all of `kinds` there."""
        spelled = self._gate.mounts.clean(os.path.join(self._root, path))
        inside = beneath(spelled, self._root)
        if inside is None:
            raise SecurityError(
                f"{path} lies outside {self._root}, of which the snapshots are.",
                hint=f"Name a path in {self._root}, or another `context`.",
            )
        for kind in kinds:
            self._gate.require(Action(kind, self._gate.call.tool, spelled, spelled, agent=self._gate.call.agent))
        return b"" if inside == "." else os.fsencode(inside)

    def shows(self, path: bytes) -> bool:
        return not path or self._gate.visible(self._absolute(path))

    def shows_change(self, change: Change) -> bool:
        """A diff of a renamed file shows both."""
        return self.shows(change.path) and (change.old_path is None or self.shows(change.old_path))

    def may_write(self, path: bytes) -> bool:
        """Whether a restore may change it. Not what the caller cannot see: the answer would not name it."""
        if not self.shows(path):
            return False
        gate, absolute = self._gate, self._absolute(path)
        action = Action(Kind.WRITE, gate.call.tool, absolute, absolute, agent=gate.call.agent)
        decision = gate.resources.policy.decide(action)
        if decision.effect is Effect.ASK:
            # Whoever said yes to the folder said yes to what the same rule asks about its content.
            if self._answered is None:
                self._answered = {judged.rule for _, judged in gate.judged if judged.effect is Effect.ASK}
            return decision.rule in self._answered
        return decision.effect is Effect.ALLOW

    def _absolute(self, path: bytes) -> str:
        return os.path.join(self._root, os.fsdecode(path)) if path else self._root
