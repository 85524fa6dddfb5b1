"""Models that describe images, over plain HTTP.

`VisionModel` is all that a tool needs. Two wire formats are supported: OpenAI's chat completions, which most model
servers speak, and Gemini's `generateContent`. Keys are sent in headers and never appear in messages.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, cast

from toolyard.config.custom_tools import Vision
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolError
from toolyard.core.limits import MIB

OPENAI_URL: Final = "https://api.openai.com/v1"
GEMINI_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
OPENAI_MODEL: Final = "gpt-4o-mini"
GEMINI_MODEL: Final = "gemini-2.5-flash"
MAX_ANSWER_BYTES: Final = 4 * MIB
_OK: Final = 200
_MAX_SHOWN_CHARS: Final = 300
_RETRYABLE_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504, 529})
_UNAUTHORIZED_STATUSES: Final = frozenset({401, 403})


class VisionModel(Protocol):
    """A model that can look at images."""

    async def describe_image(self, image: bytes, media_type: str, question: str) -> str:
        """Returns the model's answer about the image. Raises ToolError."""
        ...


@dataclass(frozen=True, slots=True)
class _VisionEndpoint:
    """The address of a model, and its credentials."""

    base_url: str
    model: str
    key: str = field(repr=False)
    seconds: float = 60.0
    variable: ClassVar[str]
    """The environment variable that holds the key."""


class OpenAIVision(_VisionEndpoint):
    """OpenAI, and every server that speaks its chat completions."""

    __slots__ = ()
    variable = "OPENAI_API_KEY"

    async def describe_image(self, image: bytes, media_type: str, question: str) -> str:
        picture = f"data:{media_type};base64,{base64.b64encode(image).decode()}"
        content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": picture}}]
        body = {"model": self.model, "messages": [{"role": "user", "content": content}]}
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        answer = await _post(url, headers, body, self)
        return _answer_text(answer, ("choices", 0, "message", "content"))


class GeminiVision(_VisionEndpoint):
    __slots__ = ()
    variable = "GEMINI_API_KEY"

    async def describe_image(self, image: bytes, media_type: str, question: str) -> str:
        picture = {"inline_data": {"mime_type": media_type, "data": base64.b64encode(image).decode()}}
        body = {"contents": [{"role": "user", "parts": [{"text": question}, picture]}]}
        url = f"{self.base_url.rstrip('/')}/models/{self.model}:generateContent"
        answer = await _post(url, {"x-goog-api-key": self.key}, body, self)
        return _answer_text(answer, ("candidates", 0, "content", "parts"))


def choose_vision_model(section: Vision, settings: Settings) -> VisionModel:
    """Returns the configured model, or one whose key is set. Raises ToolError that names the variable to set."""
    access = settings.model_access
    own = section.api_key.get_secret_value() if section.api_key else ""
    openai, gemini = (
        access.get("OPENAI_API_KEY", ""),
        access.get("GEMINI_API_KEY") or access.get("GOOGLE_API_KEY", ""),
    )
    provider = section.provider or ("gemini" if gemini and not openai else "openai")
    if provider == "gemini":
        key, url = own or gemini, section.base_url or access.get("GOOGLE_GEMINI_BASE_URL") or GEMINI_URL
        if not key:
            raise _missing_key_error("Gemini", "GEMINI_API_KEY")
        return GeminiVision(url, section.model or GEMINI_MODEL, key, section.seconds)
    key, url = own or openai, section.base_url or access.get("OPENAI_BASE_URL") or OPENAI_URL
    # A self-hosted server may need no key.
    if not key and url == OPENAI_URL:
        raise _missing_key_error("OpenAI or Gemini" if section.provider is None else "OpenAI", "OPENAI_API_KEY")
    return OpenAIVision(url, section.model or OPENAI_MODEL, key, section.seconds)


def _missing_key_error(provider: str, variable: str) -> ToolError:
    other = " or GEMINI_API_KEY" if "Gemini" in provider and variable != "GEMINI_API_KEY" else ""
    return ToolError(
        f"No vision model is available: there is no key for {provider}.",
        hint=f"Ask the user to set the variable {variable}{other} where Toolyard is started, "
        "or `toolyard.vision` in toolyard.yaml.",
    )


async def _post(url: str, headers: Mapping[str, str], body: Mapping[str, Any], model: _VisionEndpoint) -> Any:
    import httpx2  # takes half a second to import, and only this tool needs it

    try:
        async with (
            httpx2.AsyncClient(timeout=model.seconds) as client,
            client.stream("POST", url, headers=headers, json=body) as response,
        ):
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > MAX_ANSWER_BYTES:
                    raise ToolError(
                        f"The model's answer is larger than {MAX_ANSWER_BYTES} bytes.", hint="Ask for less."
                    )
            status = response.status_code
    except httpx2.TimeoutException:
        raise ToolError(
            f"The model did not answer within {model.seconds:g} seconds.", hint="Try again.", retryable=True
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        hint = "Check `toolyard.vision.base_url` and the network."
        raise ToolError(
            f"The model cannot be reached: {_mask_key(str(error), model.key)}", hint=hint, retryable=True
        ) from None
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if status != _OK:
        raise _refusal_error(status, answer, model.variable, model.key)
    if answer is None:
        raise ToolError("The model's answer is not JSON.", hint="Check `toolyard.vision.base_url`.")
    return answer


def _refusal_error(status: int, answer: Any, variable: str, key: str) -> ToolError:
    reason = _mask_key(_get_path(answer, ("error", "message")) or "", key)
    hint = "Check `toolyard.vision` in toolyard.yaml."
    if status in _UNAUTHORIZED_STATUSES:
        hint = f"Check the key in {variable}."
    elif status in _RETRYABLE_STATUSES:
        hint = "Try again later."
    message = f"The model refused with status {status}{f': {reason}' if reason else '.'}"
    return ToolError(message, hint=hint, retryable=status in _RETRYABLE_STATUSES)


def _mask_key(text: str, key: str) -> str:
    return (text.replace(key, "***") if key else text)[:_MAX_SHOWN_CHARS]


def _get_path(answer: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        try:
            answer = answer[step]
        except (KeyError, IndexError, TypeError):
            return None
    return answer


def _answer_text(answer: Any, path: tuple[str | int, ...]) -> str:
    found = _get_path(answer, path)
    if isinstance(found, list):  # parts: their texts, in order
        parts = cast("list[Any]", found)
        found = "".join(text for part in parts if isinstance(text := _get_path(part, ("text",)), str))
    if not isinstance(found, str) or not found:
        reason = _get_path(answer, ("candidates", 0, "finishReason")) or _get_path(
            answer, ("choices", 0, "finish_reason")
        )
        ending = f" It ended with {str(reason)[:50]!r}." if reason else ""
        raise ToolError(f"The model returned no text.{ending}", hint="Rephrase the question, or use another image.")
    return found
