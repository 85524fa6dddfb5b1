"""What is attempted (Action) and what the policy says to it (Decision). Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an action does, whatever tool does it."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    CALL = "call"
    """A tool of an upstream server, or a custom tool: what it does is its own affair."""


class Effect(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a tool is about to do.

    `path` is absolute and lexically normal, as the caller spelled it; `real_path` is where the opened handle really
    lies once links are followed (the same when there are none). A policy judges both, so that a link cannot
    carry an action past a rule.
    """

    kind: Kind
    tool: str
    path: str | None = None
    real_path: str | None = None
    command: str | None = None
    folder: str | None = None
    """Where a command starts; None for the workspace."""
    code: str | None = None
    """Python to be run, which has no command line that could be judged."""
    displaces: bool = False
    """Whether a whole folder is taken from its place."""
    agent: str = "agent"
    claims_read_only: bool = False
    """A called tool's own word that it changes nothing."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of the policy, with the reason a person or a model can act on, and the rule that gave it."""

    effect: Effect
    reason: str
    rule: str = ""
