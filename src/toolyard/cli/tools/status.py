"""Determines whether a tool may be called, and by which agents.

`pinned`: called as it was synced. `quarantined`: it has changed and waits for acceptance. `denied`: the agent's lists
or the policy refuse it. `unconfigured`: the current configuration does not name the server. Without an agent, all
agents of the configuration are considered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolyard.codemode.rate_limits import RateLimits
from toolyard.codemode.upstream_caller import UpstreamCall
from toolyard.config.authorization import Authorization
from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.calls import deny_without_asking
from toolyard.policy.builder import policy_for
from toolyard.policy.policy import Policy

if TYPE_CHECKING:
    from toolyard.app.yard import Yard
    from toolyard.cli.tools.names import NamedTool

_NOBODY = ""


@dataclass(frozen=True, slots=True)
class ToolState:
    """Whether a tool may be called, and why."""

    word: str
    """pinned, quarantined, denied or unconfigured"""
    text: str
    asks: bool
    """Whether every call needs approval."""
    denied_to: tuple[str, ...] = ()
    """The configured agents that may not call it."""

    def fields(self) -> dict[str, Any]:
        """Returns the state as JSON fields."""
        return {"state": self.word, "reason": self.text, "asks": self.asks, "denied_to": list(self.denied_to)}


@dataclass(frozen=True, slots=True)
class _AgentRights:
    id: str
    upstream: Authorization
    custom: Authorization
    policy: Policy


class ToolStates:
    """Determines the states of the tools of one yard."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._allowances = RateLimits.from_config(yard.options.config)
        waiting = yard.codemode.catalog.quarantined_tools()
        self._waiting = {(tool.server, tool.schema.name) for tool in waiting}
        self._configured = {entry.name for entry in yard.codemode.resolved_servers.entries}

    @cached_property
    def _agents(self) -> list[_AgentRights]:
        options = self._yard.options
        config, chosen = options.config, options.agent
        ids = [chosen] if chosen is not None else [agent.id for agent in config.agents] or [None]
        workspace = self._yard.mounts.workspace.path
        return [
            _AgentRights(
                each or _NOBODY,
                Authorization.for_agent(config, each, self._yard.codemode.resolved_servers),
                Authorization.for_custom_tools(config, each),
                policy_for(config, options.settings, workspace, options.mode, each),
            )
            for each in ids
        ]

    def state_of(self, named: NamedTool) -> ToolState:
        """Returns the state of a tool."""
        if not named.is_custom and named.server not in self._configured:
            text = "unconfigured: no server of this name is configured here; pass its configuration with --config"
            return ToolState("unconfigured", text, asks=False)
        reasons = {agent.id: self._refusal(agent, named) for agent in self._agents}
        denied = {agent: reason for agent, reason in reasons.items() if reason}
        asks = self._allowances.requires_approval(named.server, named.tool) or any(
            self._policy_decision(agent, named).effect is Effect.ASK
            for agent in self._agents
            if agent.id not in denied
        )
        names = tuple(agent for agent in denied if agent != _NOBODY)
        if len(denied) == len(reasons):
            return ToolState("denied", f"denied: {next(iter(denied.values()))}", asks, names)
        if not named.is_custom and (named.server, named.tool) in self._waiting:
            text = "quarantined: it changed since it was pinned and is not called until you accept the change"
            return ToolState("quarantined", text, asks, names)
        text = (
            "pinned: it is called as it was synced"
            if not named.is_custom
            else "custom: it runs in Toolyard's process"
        )
        text += "; every call needs approval" if asks else ""
        text += f"; denied to {', '.join(names)}" if names else ""
        return ToolState("pinned", text, asks, names)

    def _refusal(self, agent: _AgentRights, named: NamedTool) -> str:
        """Returns why the agent may not call the tool; empty if it may."""
        rights = agent.custom if named.is_custom else agent.upstream
        if not rights.may_use(named.server):
            return f"Agent '{agent.id}' not authorized for server '{named.server}'"
        if not rights.may_call(named.server, named.tool):
            return f"Agent '{agent.id}' not authorized for tool '{named.tool}' of server '{named.server}'"
        decision = self._policy_decision(agent, named)
        return decision.reason if decision.effect is Effect.DENY else ""

    def _policy_decision(self, agent: _AgentRights, named: NamedTool) -> Decision:
        call = UpstreamCall(
            named.server, named.tool, {}, agent.id, "cli", deny_without_asking, is_custom=named.is_custom
        )
        return agent.policy.decide(
            Action(Kind.CALL, call.name, agent=agent.id, claims_read_only=self._claims_read_only(named))
        )

    def _claims_read_only(self, named: NamedTool) -> bool:
        mode = self._yard.codemode
        if named.is_custom:
            custom = mode.custom.get(f"{named.server}.{named.tool}")
            return custom is not None and custom.schema.is_read_only
        known = mode.catalog.tool(named.server, named.tool)
        return known is not None and known.schema.is_read_only
