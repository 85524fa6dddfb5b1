"""Actions that tools attempt and the policy's decisions about them. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an action does, independent of the tool that does it."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    CALL = "call"
    """A call of an upstream server's tool or a custom tool. Its effects are unknown to Toolyard."""


class Effect(StrEnum):
    """The policy's verdict on an action."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Action:
    """One operation that a tool is about to perform.

    `path` is absolute and lexically normal, as the caller spelled it. `real_path` is the location of the opened
    handle after links are resolved (equal to `path` when there are none). A policy judges both, so that a link cannot
    carry an action past a rule.
    """

    kind: Kind
    tool: str
    path: str | None = None
    real_path: str | None = None
    command: str | None = None
    folder: str | None = None
    """The working directory of a command; None for the workspace."""
    code: str | None = None
    """Python source to run. It has no command line that a rule could match."""
    displaces: bool = False
    """Whether the action moves or removes a whole folder."""
    agent: str = "agent"
    claims_read_only: bool = False
    """Whether the called tool claims to be read-only (`readOnlyHint`). A claim, not a fact."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The policy's answer: the effect, a reason that a person or a model can act on, and the rule that matched."""

    effect: Effect
    reason: str
    rule: str = ""
