"""What comes in of an answer, told as it comes, and counted: no model says so much, in text, thoughts or calls.

A server can make thousands of pieces of a few kilobytes, each of which takes an SDK a fraction of a millisecond. So
there is an end to the pieces as well, and to how many may come in a second. Others have their turn after each of
them.
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
"""Half as many again as the longest answers have, where every token comes alone."""
BURST_PIECES: Final = 20_000
"""So many may come at once, as from a proxy that gathers an answer."""
PIECES_A_SECOND: Final = 2_000
"""After that: the fastest models say as much."""


async def emit_stream(stream: StreamedResponse, retries: TurnRetries) -> None:
    """Tell all of an answer. Raises TooMuch, and what the library does."""
    pieces = chars = 0
    rate = TokenBucket(BURST_PIECES, PIECES_A_SECOND)
    async for event in stream:
        pieces += 1
        chars += _emit_event(event, retries)
        if pieces > MOST_PIECES or chars > MOST_CHARS:
            raise ResponseTooLarge("the answer is longer than any model's")
        if not rate.take():
            raise ResponseTooLarge("the answer comes faster than any model's")
        drop_raw_text(stream)


def emit_whole_answer(response: ModelResponse, retries: TurnRetries) -> None:
    """Tell an answer that came in one piece. Raises TooMuch."""
    said, thought = response.text or "", response.thinking or ""
    if len(said) + len(thought) > MOST_CHARS:
        raise ResponseTooLarge("the answer is longer than any model's")
    for piece in (ThinkingDelta(thought) if thought else None, TextDelta(said) if said else None):
        if piece is not None:
            retries.emit(piece)


def _emit_event(event: Any, retries: TurnRetries) -> int:
    """How many characters came."""
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
