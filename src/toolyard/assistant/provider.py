"""Provides the assistant's six tools over one AssistantRuntime, for a Yard to serve.

The tools' names, descriptions and schemas are data in this module. Their implementations are imported with the first
call, so that clients that only list the tools do not wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from toolyard.app.yard_options import ToolProvider
from toolyard.assistant.arguments import (
    AnalyzeArguments,
    AssistantArguments,
    ChatArguments,
    CodereviewArguments,
    DebugArguments,
    PrecommitArguments,
    ThinkdeepArguments,
)
from toolyard.assistant.key_masking import mask_argument_keys
from toolyard.assistant.output import AssistantOutput, object_list_schema, output_schema
from toolyard.assistant.resources import TEMPLATES, resource_tools
from toolyard.assistant.runtime import AssistantRuntime
from toolyard.config.assistant import ToolName
from toolyard.core.calls import Result
from toolyard.core.tokens import count_or_estimate_tokens
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Tool

if TYPE_CHECKING:
    from toolyard.assistant.request import AssistantRequest
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings

_INSTRUCTIONS: Final = (
    "A second opinion from another model on the project in {root}: each tool does its whole job in one call. Paths "
    "may be absolute or relative to the project. Pass a continuation_id back to go on with that thread, in any tool "
    "that takes one. Nothing is ever changed."
)
_BALANCED, _CREATIVE, _STRICT = 0.5, 0.7, 0.2
"""Default temperatures for conversation, for ideas and for findings."""
_FINDINGS: Final = object_list_schema(
    severity={"enum": ["critical", "high", "medium", "low"]},
    category="string",
    file="string",
    line="integer",
    title="string",
    fix="string",
)
_CHECKS: Final = object_list_schema(
    name="string",
    outcome={"enum": ["passed", "warned", "failed", "skipped"]},
    details={"type": "array"},
)


@dataclass(frozen=True, slots=True)
class _ToolDefinition:
    """A tool as clients see it."""

    name: ToolName
    description: str
    arguments: type[AssistantArguments]
    temperature: float
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Fields of its results besides the common ones."""

    def load_function(self) -> Callable[[AssistantArguments, AssistantRequest], AssistantOutput]:
        """Imports the function that implements the tool."""
        module = import_module(f"toolyard.assistant.tools.{self.name}")
        return cast("Callable[[AssistantArguments, AssistantRequest], AssistantOutput]", getattr(module, self.name))


_TOOLS: Final = (
    _ToolDefinition(
        "chat",
        "Ask another model: quick questions, brainstorming, a second opinion.",
        ChatArguments,
        _BALANCED,
    ),
    _ToolDefinition(
        "thinkdeep",
        "Have an analysis challenged and taken further: architecture, design, strategy.",
        ThinkdeepArguments,
        _CREATIVE,
        {"areas": object_list_schema(area="string", answer="string")},
    ),
    _ToolDefinition("analyze", "Have code read and explained.", AnalyzeArguments, _STRICT),
    _ToolDefinition(
        "codereview",
        "Have code reviewed: findings with severity, file, line and fix.",
        CodereviewArguments,
        _STRICT,
        {"findings": _FINDINGS},
    ),
    _ToolDefinition(
        "debug",
        "Find the root cause of an error; stack traces are followed into the code.",
        DebugArguments,
        _STRICT,
        {
            "frames": object_list_schema(
                file="string", line="integer", function="string", path="string", excerpt="string"
            )
        },
    ),
    _ToolDefinition(
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


def create_assistant_provider(config: Config, settings: Settings, workspace: str) -> ToolProvider:
    """Creates the tools and the resources of the assistant for a workspace."""
    runtime = AssistantRuntime(config, settings)
    # Loading the tokenizer's vocabulary blocks all threads for a tenth of a second: do it before serving.
    count_or_estimate_tokens("")
    return ToolProvider(
        tools={definition.name: _build_tool(definition, runtime) for definition in _TOOLS},
        resources=resource_tools(runtime),
        templates=TEMPLATES,
        instructions=_INSTRUCTIONS.format(root=workspace),
        warm_up=runtime.warm_up,
        close=runtime.close,
    )


def _build_tool(definition: _ToolDefinition, runtime: AssistantRuntime) -> Tool[AssistantArguments]:
    limits = runtime.config.limits

    def run_tool(arguments: AssistantArguments, ctx: CallContext) -> Result:
        from toolyard.assistant.request import AssistantRequest

        arguments = mask_argument_keys(arguments, runtime.mask_keys)
        requested: float | None = (
            getattr(arguments, "temperature", None) if "temperature" in arguments.model_fields_set else None
        )
        temperatures = (requested, runtime.config.temperature, definition.temperature)
        request = AssistantRequest(
            runtime,
            ctx,
            definition.name,
            deadline=time.monotonic() + limits.seconds,
            thinking=arguments.thinking_mode,
            temperature=next(each for each in temperatures if each is not None),
        )
        return (
            definition.load_function()(arguments, request)
            .mask_texts(runtime.mask_secrets)
            .to_result(limits.reply_chars)
        )

    return Tool(
        name=definition.name,
        description=definition.description,
        arguments=definition.arguments,
        output=output_schema(**definition.fields),
        run=run_tool,
        kind="read",
        idempotent=False,
        open_world=True,
        queue_name=lambda given: getattr(given, "continuation_id", None),
        max_seconds=lambda _, __: limits.seconds,
        shows_defaults=True,
    )
