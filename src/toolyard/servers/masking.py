"""Keeps the secrets of a server's entry out of everything that is said about it.

A server may print the key it was given, and its last line of stderr is part of our errors. So every text that comes
from a server and goes into an error, a status or a log passes its `Mask`.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote, urlsplit

from toolyard.config.models import ServerEntry

_SHORTEST = 4
"""Values shorter than this ("1", "on", "en") are no secrets, and masking them would eat ordinary words."""
_MASKED = "***"


class Mask:
    __slots__ = ("_values",)

    def __init__(self, values: Iterable[str]) -> None:
        # The longest first: a value that contains another one must not leave its ends behind.
        self._values = sorted({value for value in values if len(value) >= _SHORTEST}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            if value in text:
                text = text.replace(value, _MASKED)
        return text


def mask_of(entry: ServerEntry) -> Mask:
    values = [*entry.env.values()]
    for header in entry.headers.values():
        values += [header, *header.split()]  # "Bearer abc": the token alone, too
    if entry.url:
        parts = urlsplit(entry.url)
        values += [text for text in (parts.password, parts.query) if text]
        values += [value for _, value in parse_qsl(parts.query)]
        values += [unquote(value) for value in (parts.password or "",)]
    return Mask(values)
