"""Text that leaves a notebook: bounded in length, and always encodable as UTF-8."""

TEXT_LIMIT = 20_000
HEAD_SHARE = 0.6


def shorten(text: str, limit: int = TEXT_LIMIT) -> str:
    """Returns the text, or its head and tail with the number of omitted characters between them."""
    text = str.__str__(text)
    if len(text) > limit:
        head = int(limit * HEAD_SHARE)
        tail = limit - head
        text = f"{text[:head]}\n… {len(text) - limit:,} characters left out …\n{text[-tail:]}"
    if text.isascii():
        return text
    # A str may contain a lone surrogate, which UTF-8 cannot encode: it must not break the message.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
