"""The assistant, composed: six tools over one Desk, as a Yard serves them.

What a tool is to its clients stands here as data. What it does is in a module of its name, which is imported with the
first call: a client that only lists the tools does not wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from toolyard.app.tool_provider import Offering
from toolyard.assistant.arguments import (
    AnalyzeArguments,
    AssistantArguments,
    ChatArguments,
    CodereviewArguments,
    DebugArguments,
    PrecommitArguments,
    ThinkdeepArguments,
)
from toolyard.assistant.key_masking import arguments_without_keys
from toolyard.assistant.output import Output, objects, output_schema
from toolyard.assistant.resources import TEMPLATES, resource_tools
from toolyard.assistant.runtime import Desk
from toolyard.config.assistant import ToolName
from toolyard.core.calls import Result
from toolyard.core.tokens import count_or_estimate
from toolyard.dispatch.call_context import Gate
from toolyard.dispatch.tool import Tool

if TYPE_CHECKING:
    from toolyard.assistant.request import Case
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings

_INSTRUCTIONS: Final = (
    "A second opinion from another model on the project in {root}: each tool does its whole job in one call. Paths "
    "may be absolute or relative to the project. Pass a continuation_id back to go on with that thread, in any tool "
    "that takes one. Nothing is ever changed."
)
_EVEN, _FREE, _STRICT = 0.5, 0.7, 0.2
"""Temperatures: of conversation, of ideas, of findings."""
_FINDINGS: Final = objects(
    severity={"enum": ["critical", "high", "medium", "low"]},
    category="string",
    file="string",
    line="integer",
    title="string",
    fix="string",
)
_CHECKS: Final = objects(
    name="string",
    outcome={"enum": ["passed", "warned", "failed", "skipped"]},
    details={"type": "array"},
)


@dataclass(frozen=True, slots=True)
class _Offered:
    name: ToolName
    description: str
    arguments: type[AssistantArguments]
    temperature: float
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Of its results, beside those that all have."""

    def load(self) -> Callable[[AssistantArguments, Case], Output]:
        module = import_module(f"toolyard.assistant.tools.{self.name}")
        return cast("Callable[[AssistantArguments, Case], Output]", getattr(module, self.name))


_TOOLS: Final = (
    _Offered(
        "chat",
        "Ask another model: quick questions, brainstorming, a second opinion.",
        ChatArguments,
        _EVEN,
    ),
    _Offered(
        "thinkdeep",
        "Have an analysis challenged and taken further: architecture, design, strategy.",
        ThinkdeepArguments,
        _FREE,
        {"areas": objects(area="string", answer="string")},
    ),
    _Offered("analyze", "Have code read and explained.", AnalyzeArguments, _STRICT),
    _Offered(
        "codereview",
        "Have code reviewed: findings with severity, file, line and fix.",
        CodereviewArguments,
        _STRICT,
        {"findings": _FINDINGS},
    ),
    _Offered(
        "debug",
        "Find the root cause of an error; stack traces are followed into the code.",
        DebugArguments,
        _STRICT,
        {"frames": objects(file="string", line="integer", function="string", path="string", excerpt="string")},
    ),
    _Offered(
        "precommit",
        "Check and review what git is about to commit: go or no-go.",
        PrecommitArguments,
        _STRICT,
        {
            "verdict": {"enum": ["go", "no-go"]},
            "checks": {"enum": ["go", "no-go"]},
            "review": {"enum": ["clear", "concerns", "blocking", "none"]},
            "check_results": _CHECKS,
            "findings": _FINDINGS,
        },
    ),
)


def offering(config: Config, settings: Settings, workspace: str) -> Offering:
    desk = Desk(config, settings)
    # Its vocabulary lets no other thread run while it is loaded: a tenth of a second, before anybody is served.
    count_or_estimate("")
    return Offering(
        tools={offered.name: _tool(offered, desk) for offered in _TOOLS},
        resources=resource_tools(desk),
        templates=TEMPLATES,
        instructions=_INSTRUCTIONS.format(root=workspace),
        warm_up=desk.warm_up,
        close=desk.close,
    )


def _tool(offered: _Offered, desk: Desk) -> Tool[AssistantArguments]:
    limits = desk.config.limits

    def called(given: AssistantArguments, gate: Gate) -> Result:
        from toolyard.assistant.request import Case

        given = arguments_without_keys(given, desk.masked)
        asked: float | None = getattr(given, "temperature", None) if "temperature" in given.model_fields_set else None
        temperatures = (asked, desk.config.temperature, offered.temperature)
        case = Case(
            desk,
            gate,
            offered.name,
            until=time.monotonic() + limits.seconds,
            thinking=given.thinking_mode,
            temperature=next(each for each in temperatures if each is not None),
        )
        return offered.load()(given, case).masked(desk.without_secrets).result(limits.reply_chars)

    return Tool(
        name=offered.name,
        description=offered.description,
        arguments=offered.arguments,
        output=output_schema(**offered.fields),
        run=called,
        kind="read",
        idempotent=False,
        open_world=True,
        line=lambda given: getattr(given, "continuation_id", None),
        longest=lambda _, __: limits.seconds,
        tells_defaults=True,
    )
