"""Work that the library does again and again, and that nobody needs.

With many tools a good part of a turn is spent on their schemas, which the library rewrites for each provider and each
turn; here it is done once for as long as the tools stay the same. Agents of one process share that time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.tools import ToolDefinition

_RAW_TEXT = "_raw_text_content"


def rewrite_schemas_once(model: Model[Any]) -> Model[Any]:
    """The same model, which remembers the tools of its last turn."""
    # Its public hook, replaced for this one object: a subclass would be one for each provider's class.
    object.__setattr__(model, "customize_request_parameters", _SchemaCache(model))
    return model


def drop_raw_text(stream: StreamedResponse) -> None:
    """Of what came so far, for OpenAI's API, where it is copied for each piece: for megabytes that takes minutes.

    It is there for citations, of which nothing is made here; the parts of the answer are kept elsewhere.
    """
    if getattr(stream, _RAW_TEXT, ""):
        setattr(stream, _RAW_TEXT, "")


class _SchemaCache:
    def __init__(self, model: Model[Any]) -> None:
        self._customize = model.customize_request_parameters
        self._source_tools: list[ToolDefinition] | None = None
        self._rewritten_tools: list[ToolDefinition] = []

    def __call__(self, parameters: ModelRequestParameters) -> ModelRequestParameters:
        if self._source_tools is not parameters.function_tools:
            self._rewritten_tools = self._customize(parameters).function_tools
            self._source_tools = parameters.function_tools
        return replace(parameters, function_tools=self._rewritten_tools)
