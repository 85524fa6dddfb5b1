"""Applies the policy to tools before a CLI calls them, in the same way for every CLI.

CLIs have different mechanisms to allow and refuse tools: a permission tool, a policy file, a list. All of them use
these decisions. A tool that the policy always refuses is denied in the CLI too; every other call reaches our
dispatch, which decides by what the call touches and asks where the policy says so.
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
    """Returns the policy's decision for a tool on a path in the workspace, or on a harmless command."""
    if tool.kind in {Kind.READ, Kind.WRITE}:
        root = yard.mounts.workspace.path
        return yard.policy.decide(Action(Kind(tool.kind), tool.name, root, root, agent=yard.agent))
    return Decision(Effect.ALLOW, "Decided by what the call does.")


def denied_tools(yard: Yard) -> dict[str, str]:
    """Returns the tools that the policy always refuses, and why."""
    stances = {name: tool_decision(yard, tool) for name, tool in yard.dispatch.tools.items()}
    return {name: decision.reason for name, decision in stances.items() if decision.effect is Effect.DENY}


class ApprovalTool:
    """The permission tool that a CLI asks before it calls a tool. Answers in the format of Claude Code."""

    def __init__(self, yard: Yard, profile: ClientProfile, prefix: str) -> None:
        """`prefix` is what the CLI puts before the names of our tools."""
        self._yard = yard
        self._profile = profile
        self._prefix = prefix

    async def __call__(self, arguments: Mapping[str, Any]) -> Result:
        tool_name = str(arguments.get("tool_name", ""))
        name = self._profile.tool_name(tool_name.removeprefix(self._prefix))
        tool = self._yard.dispatch.tools.get(name) if tool_name.startswith(self._prefix) else None
        if tool is None:
            return self._deny(tool_name, f"{tool_name} is not a tool of this workspace.")
        call_input: dict[str, Any] = arguments.get("input") or {}
        decision = tool_decision(self._yard, tool)
        if decision.effect is Effect.DENY:
            return self._deny(name, self._denial_reason(tool, call_input) or decision.reason)
        return _json_result(behavior="allow", updatedInput=call_input)

    def _denial_reason(self, tool: Tool[Any], call_input: Mapping[str, Any]) -> str:
        """Returns why the policy refuses the file that the call names; empty if it names none or it is allowed."""
        named = next((call_input[key] for key in _PATH_ARGUMENTS if isinstance(call_input.get(key), str)), "")
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
