"""Calls of upstream tools: modes by what a tool says of itself, rules by its name."""

from __future__ import annotations

import pytest

from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.policy import Policy
from toolyard.policy.rules import parse_rule

TOOL = "mcp__github__create_issue"
ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY


def decide(mode: PermissionMode, *rules: tuple[str, Effect], read_only: bool = False) -> Decision:
    policy = Policy(mode, "/ws", rules=tuple(parse_rule(text, effect) for text, effect in rules))
    return policy.decide(Action(Kind.CALL, TOOL, claims_read_only=read_only))


@pytest.mark.parametrize(
    ("mode", "reading", "changing"),
    [
        (PermissionMode.STRICT, ALLOW, ALLOW),
        (PermissionMode.MODERATE, ALLOW, ALLOW),
        (PermissionMode.PLAN, ALLOW, DENY),
        (PermissionMode.ACCEPT_EDITS, ALLOW, ASK),
        (PermissionMode.DEFAULT, ALLOW, ASK),
        (PermissionMode.BYPASS, ALLOW, ALLOW),
    ],
)
def test_a_mode_goes_by_what_the_tool_says_of_itself(mode: PermissionMode, reading: Effect, changing: Effect) -> None:
    assert decide(mode, read_only=True).effect is reading
    assert decide(mode).effect is changing


@pytest.mark.parametrize("text", ["mcp__github__create_issue", "mcp__github__*", "mcp__github", "*"])
def test_a_rule_that_names_the_tool_or_its_server_counts(text: str) -> None:
    assert decide(PermissionMode.STRICT, (text, DENY), read_only=True).effect is DENY
    assert decide(PermissionMode.STRICT, (text, ASK), read_only=True).effect is ASK
    assert decide(PermissionMode.DEFAULT, (text, ALLOW)).effect is ALLOW


@pytest.mark.parametrize("text", ["mcp__gitlab__*", "mcp__git", "Bash", "Read", "Write"])
def test_a_rule_about_something_else_does_not(text: str) -> None:
    assert decide(PermissionMode.STRICT, (text, DENY)).effect is ALLOW


def test_deny_holds_in_bypass_and_no_rule_lifts_plan() -> None:
    assert decide(PermissionMode.BYPASS, ("mcp__github__*", DENY)).effect is DENY
    refused = decide(PermissionMode.PLAN, ("mcp__github__*", ALLOW))
    assert refused == Decision(
        DENY,
        f"Calling {TOOL} is refused: plan mode calls only tools that say they change nothing. "
        "Describe the call instead.",
        "mode plan",
    )


def test_ask_goes_before_allow() -> None:
    assert decide(PermissionMode.DEFAULT, ("mcp__github__*", ALLOW), (TOOL, ASK)).effect is ASK
