"""What messages cost a model's context, by estimate and on the high side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolyard.core.tokens import estimate_tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from toolyard.models.chat import OfferedTool

_PICTURE = 1_600
"""What the large providers ask for a picture of usual size."""
_AROUND = 4
"""Of a message or a part: who speaks, and where it ends."""


def tokens_of(message: ModelMessage) -> int:
    return _AROUND + sum(_AROUND + _part(part) for part in message.parts)


def tokens_of_tools(tools: Iterable[OfferedTool]) -> int:
    return sum(
        _AROUND + estimate_tokens(f"{tool.name} {tool.description} {json.dumps(tool.schema)}") for tool in tools
    )


def _part(part: Any) -> int:
    if part.part_kind == "tool-call":
        arguments: str | Mapping[str, Any] | None = part.args
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, default=str)
        return estimate_tokens(part.tool_name) + estimate_tokens(text)
    signature = getattr(part, "signature", None) or ""
    # A signature is base64: about two characters a token, and as one word it would be taken for less.
    return _content(part.content) + len(signature) // 2


def _content(content: Any) -> int:
    if isinstance(content, str):
        return estimate_tokens(content)
    if isinstance(content, (list, tuple)):
        return sum(_content(each) for each in cast("list[Any]", content))
    return _PICTURE
