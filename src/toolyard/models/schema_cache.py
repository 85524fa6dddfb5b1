"""Caches work that pydantic-ai would repeat in every turn.

With many tools, a good part of a turn is spent on rewriting their schemas for the provider. Here that is done once
while the tools stay the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.tools import ToolDefinition

_RAW_TEXT = "_raw_text_content"


def rewrite_schemas_once(model: Model[Any]) -> Model[Any]:
    """Patches the model to reuse the rewritten schemas of its last turn; returns the same model."""
    # Replaces the public hook of this one object: subclassing would need a class per provider.
    object.__setattr__(model, "customize_request_parameters", _SchemaCache(model))
    return model


def drop_raw_text(stream: StreamedResponse) -> None:
    """Drops the raw text that OpenAI's stream copies for each piece: for megabytes that takes minutes.

    It serves citations, which are not used here; the parts of the answer are stored elsewhere.
    """
    if getattr(stream, _RAW_TEXT, ""):
        setattr(stream, _RAW_TEXT, "")


class _SchemaCache:
    """Replaces `customize_request_parameters` and keeps the rewritten tools of the last call."""

    def __init__(self, model: Model[Any]) -> None:
        self._customize = model.customize_request_parameters
        self._source_tools: list[ToolDefinition] | None = None
        self._rewritten_tools: list[ToolDefinition] = []

    def __call__(self, parameters: ModelRequestParameters) -> ModelRequestParameters:
        if self._source_tools is not parameters.function_tools:
            self._rewritten_tools = self._customize(parameters).function_tools
            self._source_tools = parameters.function_tools
        return replace(parameters, function_tools=self._rewritten_tools)
