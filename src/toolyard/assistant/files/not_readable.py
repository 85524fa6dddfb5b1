"""Errors for names that may not be read, worded for users who chose a project rather than a permission mode."""

from __future__ import annotations

from toolyard.core.actions import Effect
from toolyard.core.errors import FieldError, SecurityError
from toolyard.dispatch.call_context import CallContext
from toolyard.files.os_errors import printable_name

_OUTSIDE = (
    "Only files inside the project are read: name one, or ask the user to put it there or to start the assistant "
    "in another folder."
)


def refusal_error(ctx: CallContext, name: str, field: str, error: SecurityError) -> SecurityError:
    """Rewords the error that `ctx` raised for the name, and adds the argument to blame."""
    if _is_outside(ctx, name):
        message, hint = f"{printable_name(name)} lies outside the project {ctx.mounts.workspace.path}", _OUTSIDE
    else:
        message, hint = error.message.rstrip("."), error.hint
    return SecurityError(f"{field}: {message}", (FieldError(field, message),), hint=hint)


def _is_outside(ctx: CallContext, name: str) -> bool:
    """Whether the policy denied the name and it lies in none of the readable folders."""
    is_denied = bool(ctx.permissions.decisions) and ctx.permissions.decisions[-1][1].effect is Effect.DENY
    return is_denied and not ctx.mounts.is_declared(ctx.mounts.clean(name))
