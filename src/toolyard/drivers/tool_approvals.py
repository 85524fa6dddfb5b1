"""One decision for every CLI: what the policy says to a tool before it is called.

The CLIs have mechanisms of their own to allow tools or to refuse them: a tool to ask, a policy file, a list. They all
get their answers from here. A tool that the policy would refuse whatever it is called with is denied in the CLI too;
every other call comes to our dispatch, which decides on what it really touches and asks where the policy says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from toolyard.app.yard import Yard
from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.calls import Result, Text
from toolyard.core.events import CallOutcome
from toolyard.dispatch.tool import Tool
from toolyard.transports.client_profile import ClientProfile

_PATH_ARGUMENTS: Final = ("file_path", "notebook_path", "path")


def tool_decision(yard: Yard, tool: Tool[Any]) -> Decision:
    """What the policy says to a tool in the middle of the workspace, or to its most harmless command."""
    if tool.kind in {Kind.READ, Kind.WRITE}:
        root = yard.mounts.workspace.path
        return yard.policy.decide(Action(Kind(tool.kind), tool.name, root, root, agent=yard.agent))
    return Decision(Effect.ALLOW, "It is decided when it is known what is to be done.")


def denied_tools(yard: Yard) -> dict[str, str]:
    """The tools of which no call can succeed, and why."""
    stances = {name: tool_decision(yard, tool) for name, tool in yard.dispatch.tools.items()}
    return {name: decision.reason for name, decision in stances.items() if decision.effect is Effect.DENY}


class ApprovalTool:
    """Answers a CLI that asks before it calls a tool, in the words Claude Code wants."""

    def __init__(self, yard: Yard, profile: ClientProfile, prefix: str) -> None:
        """`prefix` is what the CLI puts before the names of our tools."""
        self._yard = yard
        self._profile = profile
        self._prefix = prefix

    async def __call__(self, arguments: Mapping[str, Any]) -> Result:
        asked = str(arguments.get("tool_name", ""))
        name = self._profile.tool_name(asked.removeprefix(self._prefix))
        tool = self._yard.dispatch.tools.get(name) if asked.startswith(self._prefix) else None
        if tool is None:
            return self._deny(asked, f"{asked} is not a tool of this workspace.")
        given: dict[str, Any] = arguments.get("input") or {}
        decision = tool_decision(self._yard, tool)
        if decision.effect is Effect.DENY:
            return self._deny(name, self._denial_reason(tool, given) or decision.reason)
        return _json_result(behavior="allow", updatedInput=given)

    def _denial_reason(self, tool: Tool[Any], given: Mapping[str, Any]) -> str:
        """Why the policy refuses the file that the call names; empty where it names none, or that one is allowed."""
        named = next((given[key] for key in _PATH_ARGUMENTS if isinstance(given.get(key), str)), "")
        if not named or tool.kind not in {Kind.READ, Kind.WRITE}:
            return ""
        path = os.path.normpath(os.path.join(self._yard.mounts.workspace.path, named))
        decision = self._yard.policy.decide(Action(Kind(tool.kind), tool.name, path, path, agent=self._yard.agent))
        return decision.reason if decision.effect is Effect.DENY else ""

    def _deny(self, tool: str, reason: str) -> Result:
        self._yard.record(tool, f"Refused before it was called: {reason}", CallOutcome.DENIED)
        return _json_result(behavior="deny", message=reason)


def _json_result(**words: object) -> Result:
    return Result((Text(json.dumps(words)),), dict(words))
