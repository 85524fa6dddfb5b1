"""What messages cost a model's context, by estimate and on the high side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolyard.core.tokens import estimate_tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from toolyard.models.messages import OfferedTool

_PICTURE = 1_600
"""What the large providers ask for a picture of usual size."""
_AROUND = 4
"""Of a message or a part: who speaks, and where it ends."""
_SAMPLES = 8
_SAMPLE = 1_000
"""Characters. A text longer than all samples together is judged by them: everybody waits while it is looked at."""
_MARGIN = 1.05


def tokens_of(message: ModelMessage) -> int:
    return _AROUND + sum(_AROUND + _part(part) for part in message.parts)


def tokens_of_text(text: str) -> int:
    if len(text) <= _SAMPLES * _SAMPLE:
        return estimate_tokens(text)
    apart = (len(text) - _SAMPLE) / (_SAMPLES - 1)
    starts = [int(apart * number) for number in range(_SAMPLES)]
    seen = sum(estimate_tokens(text[start : start + _SAMPLE]) for start in starts)
    return int(seen * _MARGIN * len(text) / (_SAMPLES * _SAMPLE))


def tokens_of_content(content: Any) -> int:
    if isinstance(content, str):
        return tokens_of_text(content)
    if isinstance(content, (list, tuple)):
        return sum(tokens_of_content(each) for each in cast("list[Any]", content))
    return _PICTURE


def tokens_of_tools(tools: Iterable[OfferedTool]) -> int:
    return sum(
        _AROUND + estimate_tokens(f"{tool.name} {tool.description} {json.dumps(tool.schema)}") for tool in tools
    )


def _part(part: Any) -> int:
    if part.part_kind == "tool-call":
        arguments: str | Mapping[str, Any] | None = part.args
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, default=str)
        return estimate_tokens(part.tool_name) + tokens_of_text(text)
    signature = getattr(part, "signature", None) or ""
    # A signature is base64: about two characters a token, and as one word it would be taken for less.
    return tokens_of_content(part.content) + len(signature) // 2
