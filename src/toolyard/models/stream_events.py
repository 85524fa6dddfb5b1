"""Emits the pieces of an answer as they arrive, and limits their number, size and rate.

A server can send thousands of tiny pieces in a few kilobytes, each of which costs the SDK a fraction of a
millisecond. So the number of pieces and their rate are limited as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolyard.core.token_bucket import TokenBucket
from toolyard.models.messages import TextDelta, ThinkingDelta
from toolyard.models.response_limits import ResponseTooLarge
from toolyard.models.sanitize import repair_surrogates
from toolyard.models.schema_cache import drop_raw_text

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import StreamedResponse

    from toolyard.models.retry import TurnRetries

MOST_CHARS: Final = 4_000_000
MOST_PIECES: Final = 200_000
"""Half as many again as the longest answers have with one token per piece."""
BURST_PIECES: Final = 20_000
"""Pieces that may arrive at once, as from a proxy that buffers an answer."""
PIECES_A_SECOND: Final = 2_000
"""Sustained rate after the burst: what the fastest models produce."""


async def emit_stream(stream: StreamedResponse, retries: TurnRetries) -> None:
    """Emits all pieces of a streamed answer. Raises ResponseTooLarge, and what the library raises."""
    pieces = chars = 0
    rate = TokenBucket(BURST_PIECES, PIECES_A_SECOND)
    async for event in stream:
        pieces += 1
        chars += _emit_event(event, retries)
        if pieces > MOST_PIECES or chars > MOST_CHARS:
            raise ResponseTooLarge("the answer exceeds the length limit")
        if not rate.take():
            raise ResponseTooLarge("the answer exceeds the rate limit")
        drop_raw_text(stream)


def emit_whole_answer(response: ModelResponse, retries: TurnRetries) -> None:
    """Emits an answer that arrived in one piece. Raises ResponseTooLarge."""
    text, thinking = response.text or "", response.thinking or ""
    if len(text) + len(thinking) > MOST_CHARS:
        raise ResponseTooLarge("the answer exceeds the length limit")
    for piece in (ThinkingDelta(thinking) if thinking else None, TextDelta(text) if text else None):
        if piece is not None:
            retries.emit(piece)


def _emit_event(event: Any, retries: TurnRetries) -> int:
    """Emits the text of one event; returns its number of characters."""
    if event.event_kind == "part_start":
        kind, part = event.part.part_kind, event.part
        text: object = getattr(part, "content", None) or getattr(part, "args", None)
    elif event.event_kind == "part_delta":
        kind, delta = event.delta.part_delta_kind, event.delta
        text = getattr(delta, "content_delta", None) or getattr(delta, "args_delta", None)
    else:
        return 0
    if not isinstance(text, str) or not text:
        return 0
    if kind == "text":
        retries.emit(TextDelta(repair_surrogates(text)))
    elif kind == "thinking":
        retries.emit(ThinkingDelta(repair_surrogates(text)))
    return len(text)
