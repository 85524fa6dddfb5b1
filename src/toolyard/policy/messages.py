"""The reason texts of policy decisions: what is refused or needs approval, by which rule, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.core.actions import Effect, Kind
from toolyard.core.paths import is_beneath

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolyard.core.actions import Action
    from toolyard.core.permission_modes import PermissionMode
    from toolyard.policy.rules import Rule

_VERBS = {Kind.READ: "Reading", Kind.WRITE: "Writing", Kind.EXECUTE: "Running", Kind.CALL: "Calling"}
MAX_SHOWN_COMMAND_CHARS = 200
MAX_NAMED_ROOTS = 5


def describe_action(action: Action, path: str | None = None) -> str:
    """Returns the action as a subject, such as `Writing /ws/a.txt`; a link is named with its target."""
    verb = _VERBS[action.kind]
    if action.kind is Kind.CALL:
        return f"{verb} {action.tool}"
    if action.kind is Kind.EXECUTE:
        if action.command is None:
            return f"{verb} {action.tool}"
        short = (
            action.command
            if len(action.command) <= MAX_SHOWN_COMMAND_CHARS
            else action.command[:MAX_SHOWN_COMMAND_CHARS] + "..."
        )
        return f'{verb} "{short}"'
    if path is not None and action.path is not None and path != action.path:
        return f"{verb} {action.path} (which leads to {path})"
    return f"{verb} {path or action.path or 'the workspace'}"


def outside_workspace_reason(
    subject: str, workspace: str, roots: Iterable[str], mode: PermissionMode, effect: Effect
) -> str:
    """Returns the reason for asking about or denying a path outside all roots."""
    if effect is Effect.ASK:
        return f"{subject} is outside the workspace {workspace}; {mode} mode asks before that."
    others = sorted(path for path in roots if not is_beneath(path, workspace))
    named = ", ".join(others[:MAX_NAMED_ROOTS]) + (" ..." if len(others) > MAX_NAMED_ROOTS else "")
    beside = f" and inside {named}" if others else ""
    return (
        f"{subject} is outside the workspace {workspace}; {mode} mode allows only paths inside it{beside}. "
        f"Use a path under {workspace}."
    )


def plan_mode_write_reason(subject: str) -> str:
    """Returns the reason for denying a write in `plan` mode."""
    return f"{subject} is refused: plan mode changes nothing. Read, search and describe the change instead."


def read_only_root_reason(subject: str, root: str, workspace: str) -> str:
    """Returns the reason for denying a write in a read-only context path."""
    return f"{subject} is refused: {root} is declared read-only. Write the result under {workspace} instead."


def protected_path_reason(subject: str, pattern: str) -> str:
    """Returns the reason for denying a write to a protected path."""
    return f'{subject} is refused: it is protected ("{pattern}"). Leave it as it is, or ask the user to change it.'


def describe_command(action: Action, effects: str) -> str:
    """Returns the command with its effects: `Running "rm -rf build" deletes files (rm -rf build)`."""
    return f"{describe_action(action)} {effects}" if effects else describe_action(action)


def destruction_reason(subject: str, loss: str) -> str:
    """Returns the circuit breaker's reason: `Running "rm -rf ~" deletes the home folder /home/me. ...`."""
    return (
        f"{subject} {loss} This needs an explicit yes in every mode "
        "(`code_execution: {allow_destructive: true}` switches that off)."
    )


def plan_mode_command_reason(subject: str, effects: str) -> str:
    """Returns the reason for denying a command in `plan` mode."""
    because = f", and this one {effects}" if effects else ""
    return (
        f"{subject} is refused: plan mode runs only commands known to just read (ls, cat, rg, find, git diff ...), "
        f"alone or joined{because}. Describe the command instead."
    )


def plan_mode_call_reason(subject: str) -> str:
    """Returns the reason for denying an upstream tool call in `plan` mode."""
    return (
        f"{subject} is refused: plan mode calls only tools that say they change nothing. Describe the call instead."
    )


def mode_asks_reason(subject: str, mode: PermissionMode) -> str:
    """Returns the reason for asking because of the permission mode."""
    return f"{subject}: {mode} mode asks before that."


def rule_reason(subject: str, rule: Rule) -> str:
    """Returns the reason of a decision made by a rule."""
    if rule.effect is Effect.ALLOW:
        return f"{subject} is allowed by the rule {rule.label}."
    if rule.effect is Effect.ASK:
        return f"{subject}: the rule {rule.label} asks before that."
    return (
        f"{subject} is refused by the rule {rule.label}. Do the task without it, or ask the user to change the rule."
    )
