"""Built-in tools for images."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

from pydantic import Field

from toolyard.codemode.custom.context import ToolContext
from toolyard.codemode.custom.vision import choose_vision_model
from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import MIB
from toolyard.files.content.file_type import media_type_of

MAX_IMAGE_BYTES: Final = 20 * MIB
DEFAULT_QUESTION: Final = "Describe this picture."
_USE_A_FILE: Final = "Save the picture in the workspace and give its image_path."


async def vision_understanding(
    context: ToolContext,
    image_path: Annotated[str | None, Field(description="A PNG, JPEG, GIF or WebP file in the workspace.")] = None,
    prompt: Annotated[str | None, Field(description="What to find out; without it it is described.")] = None,
    image: Annotated[str | None, Field(description="The picture in base64, or as a data URL.")] = None,
    question: Annotated[str | None, Field(description="Another name for prompt.")] = None,
) -> str:
    """Ask a model that sees about a picture: its content, design, text, or what is wrong with it."""
    if (image_path is None) == (image is None):
        raise ValidationError.of("image_path", "give either image_path or image", hint="A path is shorter.")
    data = context.files.read(image_path) if image_path is not None else _decode_image(image or "")
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(f"The picture is larger than {MAX_IMAGE_BYTES} bytes.", hint="Make it smaller first.")
    media_type = media_type_of(data)
    if media_type is None:
        raise ToolError("This is not a PNG, JPEG, GIF or WebP picture.", hint="Convert it to PNG first.")
    model = choose_vision_model(context.vision, context.settings)
    return await model.describe_image(data, media_type, prompt or question or DEFAULT_QUESTION)


vision_understanding.__tool_annotations__ = {"readOnlyHint": True, "openWorldHint": True}  # type: ignore[attr-defined]


def _decode_image(text: str) -> bytes:
    _, is_url, rest = text.partition(";base64,") if text.startswith("data:") else ("", "", text)
    if text.startswith("data:") and not is_url:
        raise ValidationError.of("image", "this data URL is not base64", hint=_USE_A_FILE)
    try:
        return base64.b64decode(rest, validate=True)
    except (binascii.Error, ValueError):
        raise ValidationError.of("image", "is not base64", hint=_USE_A_FILE) from None
