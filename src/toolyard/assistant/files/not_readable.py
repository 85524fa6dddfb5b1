"""What to say of a name that may not be read: to somebody who chose a project, and no permission mode."""

from __future__ import annotations

from toolyard.core.actions import Effect
from toolyard.core.errors import FieldError, SecurityError
from toolyard.dispatch.call_context import Gate
from toolyard.files.os_errors import shown

_OUTSIDE = (
    "Only what lies inside the project is read: name that, or ask the user to put it there or to start the assistant "
    "in another folder."
)


def refused(gate: Gate, name: str, field: str, error: SecurityError) -> SecurityError:
    """The error that `gate` raised for the name, in words for here, with the argument that is to blame."""
    if _is_outside(gate, name):
        told, hint = f"{shown(name)} lies outside the project {gate.mounts.workspace.path}", _OUTSIDE
    else:
        told, hint = error.message.rstrip("."), error.hint
    return SecurityError(f"{field}: {told}", (FieldError(field, told),), hint=hint)


def _is_outside(gate: Gate, name: str) -> bool:
    """Whether the policy refused it, and it is in none of the folders that may be read."""
    is_denied = bool(gate.judged) and gate.judged[-1][1].effect is Effect.DENY
    return is_denied and not gate.mounts.is_declared(gate.mounts.clean(name))
