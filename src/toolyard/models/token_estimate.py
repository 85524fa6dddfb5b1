"""Estimates how many tokens messages take in a model's context, on the high side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolyard.core.tokens import estimate_tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from toolyard.models.messages import OfferedTool

_PICTURE_TOKENS = 1_600
"""What the large providers charge for a picture of usual size."""
_OVERHEAD_TOKENS = 4
"""Tokens per message or part for its role and delimiters."""
_SAMPLES = 8
_SAMPLE_CHARS = 1_000
"""A text longer than all samples together is estimated from them, because estimating blocks other threads."""
_MARGIN = 1.05


def message_tokens(message: ModelMessage) -> int:
    return _OVERHEAD_TOKENS + sum(_OVERHEAD_TOKENS + _part_tokens(part) for part in message.parts)


def text_tokens(text: str) -> int:
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return estimate_tokens(text)
    apart = (len(text) - _SAMPLE_CHARS) / (_SAMPLES - 1)
    starts = [int(apart * number) for number in range(_SAMPLES)]
    seen = sum(estimate_tokens(text[start : start + _SAMPLE_CHARS]) for start in starts)
    return int(seen * _MARGIN * len(text) / (_SAMPLES * _SAMPLE_CHARS))


def content_tokens(content: Any) -> int:
    if isinstance(content, str):
        return text_tokens(content)
    if isinstance(content, (list, tuple)):
        return sum(content_tokens(each) for each in cast("list[Any]", content))
    return _PICTURE_TOKENS


def tool_tokens(tools: Iterable[OfferedTool]) -> int:
    return sum(
        _OVERHEAD_TOKENS + estimate_tokens(f"{tool.name} {tool.description} {json.dumps(tool.schema)}")
        for tool in tools
    )


def _part_tokens(part: Any) -> int:
    if part.part_kind == "tool-call":
        arguments: str | Mapping[str, Any] | None = part.args
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, default=str)
        return estimate_tokens(part.tool_name) + text_tokens(text)
    signature = getattr(part, "signature", None) or ""
    # A signature is base64, about two characters per token; estimated as one word it would count for less.
    return content_tokens(part.content) + len(signature) // 2
