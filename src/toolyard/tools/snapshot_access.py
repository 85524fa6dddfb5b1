"""Checks what one call may see and write of a snapshot: the policy applies to every path as to the current file.

A path that may not be read now may not be read in a snapshot either, and a restore writes only where this call may
write.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import SecurityError
from toolyard.core.paths import relative_to
from toolyard.snapshots import PathChange

if TYPE_CHECKING:
    from toolyard.dispatch.call_context import CallContext


class SnapshotAccess:
    """The permissions of one call on the snapshots of one folder."""

    def __init__(self, ctx: CallContext, root: str) -> None:
        """`root` is the folder that the snapshots are of."""
        self._ctx = ctx
        self._root = root
        self._approved_rules: set[str] | None = None

    def resolve_path(self, path: str, *kinds: Kind) -> bytes:
        """Returns the caller's path relative to the folder, if this call may do all of `kinds` there."""
        spelled = self._ctx.mounts.clean(os.path.join(self._root, path))
        inside = relative_to(spelled, self._root)
        if inside is None:
            raise SecurityError(
                f"{path} lies outside {self._root}, of which the snapshots are.",
                hint=f"Name a path in {self._root}, or another `context`.",
            )
        for kind in kinds:
            self._ctx.permissions.require(
                Action(kind, self._ctx.call.tool, spelled, spelled, agent=self._ctx.call.agent)
            )
        return b"" if inside == "." else os.fsencode(inside)

    def is_visible(self, path: bytes) -> bool:
        """Whether this call may see the path."""
        return not path or self._ctx.permissions.is_visible(self._absolute(path))

    def is_change_visible(self, change: PathChange) -> bool:
        """Whether this call may see both paths of a change: the diff of a renamed file shows both."""
        return self.is_visible(change.path) and (change.old_path is None or self.is_visible(change.old_path))

    def may_write(self, path: bytes) -> bool:
        """Whether a restore may change the path. An invisible path may not: the result could not name it."""
        if not self.is_visible(path):
            return False
        ctx, absolute = self._ctx, self._absolute(path)
        action = Action(Kind.WRITE, ctx.call.tool, absolute, absolute, agent=ctx.call.agent)
        decision = ctx.services.policy.decide(action)
        if decision.effect is Effect.ASK:
            # Approval of the folder includes what the same rule asks about its content.
            if self._approved_rules is None:
                self._approved_rules = {
                    earlier.rule for _, earlier in ctx.permissions.decisions if earlier.effect is Effect.ASK
                }
            return decision.rule in self._approved_rules
        return decision.effect is Effect.ALLOW

    def _absolute(self, path: bytes) -> str:
        return os.path.join(self._root, os.fsdecode(path)) if path else self._root
