"""The six permission modes as a table with the same layout as the one in docs/permissions.md.

A path's zone is inside (the workspace, a writable context path and, in `moderate`, its extra roots), read-only (a
read-only context path), or outside all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from toolyard.core.actions import Effect
from toolyard.core.permission_modes import PermissionMode

ALLOW: Final = Effect.ALLOW
ASK: Final = Effect.ASK
DENY: Final = Effect.DENY
YES: Final = True
NO: Final = False

SEVERITY: Final = {ALLOW: 0, ASK: 1, DENY: 2}


class Zone(StrEnum):
    """Where a path is, relative to the roots of the workspace."""

    INSIDE = "inside"
    READ_ONLY = "read-only"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class ModeRow:
    """The effects of one permission mode by zone and kind of action."""

    inside_read: Effect
    inside_write: Effect
    outside_read: Effect
    outside_write: Effect
    read_only_command: Effect
    other_command: Effect
    read_only_call: Effect
    other_call: Effect
    opens_extra_roots: bool
    guards: bool
    """Whether protected paths and read-only context paths are enforced."""


# fmt: off
MODES: Final[dict[PermissionMode, ModeRow]] = {
    #                               inside          outside         commands        upstream        extra
    #                               read   write    read   write    r/o    others   r/o    others   roots  guards
    PermissionMode.STRICT:  ModeRow(ALLOW, ALLOW,   DENY,  DENY,    ALLOW, ALLOW,   ALLOW, ALLOW,   NO,    YES),
    PermissionMode.PLAN:    ModeRow(ALLOW, DENY,    DENY,  DENY,    ALLOW, DENY,    ALLOW, DENY,    NO,    YES),
    PermissionMode.ACCEPT_EDITS:
                            ModeRow(ALLOW, ALLOW,   ASK,   ASK,     ALLOW, ASK,     ALLOW, ASK,     NO,    YES),
    PermissionMode.MODERATE:
                            ModeRow(ALLOW, ALLOW,   DENY,  DENY,    ALLOW, ALLOW,   ALLOW, ALLOW,   YES,   YES),
    PermissionMode.DEFAULT: ModeRow(ALLOW, ASK,     ASK,   ASK,     ASK,   ASK,     ALLOW, ASK,     NO,    YES),
    PermissionMode.BYPASS:  ModeRow(ALLOW, ALLOW,   ALLOW, ALLOW,   ALLOW, ALLOW,   ALLOW, ALLOW,   NO,    NO),
}
# fmt: on


def stricter_effect(first: Effect, second: Effect) -> Effect:
    """Returns the stricter of two effects."""
    return first if SEVERITY[first] >= SEVERITY[second] else second
