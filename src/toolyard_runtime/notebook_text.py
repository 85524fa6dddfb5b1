"""Text that leaves a notebook: bounded in length, and always encodable as UTF-8."""

TEXT_LIMIT = 20_000
HEAD_SHARE = 0.6


def shorten(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text itself, or its head and tail with the number of characters between them that were left out."""
    text = str.__str__(text)
    if len(text) > limit:
        head = int(limit * HEAD_SHARE)
        tail = limit - head
        text = f"{text[:head]}\n… {len(text) - limit:,} characters left out …\n{text[-tail:]}"
    if text.isascii():
        return text
    # A lone surrogate is legal in a str and in no encoding: it must not break the message that carries the text.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
