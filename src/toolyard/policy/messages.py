"""The sentences of a decision: what was refused or is asked, by what, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.core.actions import Effect, Kind
from toolyard.core.paths import is_beneath

if TYPE_CHECKING:
    from toolyard.core.actions import Action
    from toolyard.core.permission_modes import PermissionMode
    from toolyard.policy.roots import Roots
    from toolyard.policy.rules import Rule

_VERBS = {Kind.READ: "Reading", Kind.WRITE: "Writing", Kind.EXECUTE: "Running", Kind.CALL: "Calling"}
COMMAND_CHARS = 200
ROOTS_NAMED = 5


def subject(action: Action, path: str | None = None) -> str:
    """`Writing /ws/a.txt`, `Running "make"`; a link is named with where it leads."""
    verb = _VERBS[action.kind]
    if action.kind is Kind.CALL:
        return f"{verb} {action.tool}"
    if action.kind is Kind.EXECUTE:
        if action.command is None:
            return f"{verb} {action.tool}"
        short = action.command if len(action.command) <= COMMAND_CHARS else action.command[:COMMAND_CHARS] + "..."
        return f'{verb} "{short}"'
    if path is not None and action.path is not None and path != action.path:
        return f"{verb} {action.path} (which leads to {path})"
    return f"{verb} {path or action.path or 'the workspace'}"


def outside(what: str, roots: Roots, mode: PermissionMode, effect: Effect) -> str:
    workspace = roots.workspace
    if effect is Effect.ASK:
        return f"{what} is outside the workspace {workspace}; {mode} mode asks before that."
    others = sorted(path for path in roots.paths if not is_beneath(path, workspace))
    named = ", ".join(others[:ROOTS_NAMED]) + (" ..." if len(others) > ROOTS_NAMED else "")
    beside = f" and inside {named}" if others else ""
    return (
        f"{what} is outside the workspace {workspace}; {mode} mode allows only paths inside it{beside}. "
        f"Use a path under {workspace}."
    )


def read_only_mode(what: str) -> str:
    return f"{what} is refused: plan mode changes nothing. Read, search and describe the change instead."


def read_only_root(what: str, root: str, workspace: str) -> str:
    return f"{what} is refused: {root} is declared read-only. Write the result under {workspace} instead."


def protected(what: str, pattern: str) -> str:
    return f'{what} is refused: it is protected ("{pattern}"). Leave it as it is, or ask the user to change it.'


def command(action: Action, does: str) -> str:
    """`Running "rm -rf build" deletes files (rm -rf build)`."""
    return f"{subject(action)} {does}" if does else subject(action)


def destroys(what: str, loss: str) -> str:
    """`Running "rm -rf ~" deletes the home folder /home/me. ...`."""
    return (
        f"{what} {loss} This needs an explicit yes in every mode "
        "(`code_execution: {allow_destructive: true}` switches that off)."
    )


def plan_command(what: str, does: str) -> str:
    because = f", and this one {does}" if does else ""
    return (
        f"{what} is refused: plan mode runs only commands known to just read (ls, cat, rg, find, git diff ...), "
        f"alone or joined{because}. Describe the command instead."
    )


def plan_call(what: str) -> str:
    return f"{what} is refused: plan mode calls only tools that say they change nothing. Describe the call instead."


def asks(what: str, mode: PermissionMode) -> str:
    return f"{what}: {mode} mode asks before that."


def by_rule(what: str, rule: Rule) -> str:
    if rule.effect is Effect.ALLOW:
        return f"{what} is allowed by the rule {rule.label}."
    if rule.effect is Effect.ASK:
        return f"{what}: the rule {rule.label} asks before that."
    return f"{what} is refused by the rule {rule.label}. Do the task without it, or ask the user to change the rule."
