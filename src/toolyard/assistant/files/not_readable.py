"""What to say of a name that may not be read: to somebody who chose a project, and no permission mode."""

from __future__ import annotations

from toolyard.core.actions import Effect
from toolyard.core.errors import FieldError, SecurityError
from toolyard.dispatch.call_context import CallContext
from toolyard.files.os_errors import printable_name

_OUTSIDE = (
    "Only what lies inside the project is read: name that, or ask the user to put it there or to start the assistant "
    "in another folder."
)


def refusal_error(ctx: CallContext, name: str, field: str, error: SecurityError) -> SecurityError:
    """The error that `ctx` raised for the name, in words for here, with the argument that is to blame."""
    if _is_outside(ctx, name):
        told, hint = f"{printable_name(name)} lies outside the project {ctx.mounts.workspace.path}", _OUTSIDE
    else:
        told, hint = error.message.rstrip("."), error.hint
    return SecurityError(f"{field}: {told}", (FieldError(field, told),), hint=hint)


def _is_outside(ctx: CallContext, name: str) -> bool:
    """Whether the policy refused it, and it is in none of the folders that may be read."""
    is_denied = bool(ctx.decisions) and ctx.decisions[-1][1].effect is Effect.DENY
    return is_denied and not ctx.mounts.is_declared(ctx.mounts.clean(name))
