"""Keeps the secrets of a server's entry out of everything that is said about it.

A server may print the key it was given, and its last line of stderr is part of our errors. So every text that comes
from a server and goes into an error, a status or a log passes its `Mask`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote, urlsplit

from toolyard.config.models import ServerEntry

_SHORTEST = 4
"""Values shorter than this ("1", "on", "en") are no secrets, and masking them would eat ordinary words."""
_MASKED = "***"
_TOKENS = 8
"""The last ones that were handed out at a sign-in; older ones open nothing any more."""


class Mask:
    """Learns a server's secrets when it is started: before that their values are in nobody's hands."""

    __slots__ = ("_entry", "_tokens", "_values")

    def __init__(self) -> None:
        self._entry: set[str] = set()
        self._tokens: deque[str] = deque(maxlen=_TOKENS)
        self._values: list[str] = []

    def learn(self, written: ServerEntry, started: ServerEntry) -> None:
        """`written` is the entry of the file, `started` the same with the values of variables in it."""
        values = {*self._entry, *_secrets(started)}
        # A word that holds the value of a variable is a secret wherever it stands.
        before = {*written.command_line, *_segments(written.url)}
        values |= {*started.command_line, *_segments(started.url)} - before
        self._entry = values
        self._sort()

    def learn_tokens(self, *tokens: str) -> None:
        """What somebody who signed in was given for this server."""
        self._tokens.extend(tokens)
        self._sort()

    def _sort(self) -> None:
        """The longest first: a value that contains another one must not leave its ends behind."""
        values = {value for value in (*self._entry, *self._tokens) if len(value) >= _SHORTEST}
        self._values = sorted(values, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            if value in text:
                text = text.replace(value, _MASKED)
        return text


def _secrets(entry: ServerEntry) -> Iterable[str]:
    yield from entry.env.values()
    for header in entry.headers.values():
        yield header
        yield from header.split()[1:]  # "Bearer abc": the token alone, too
    if entry.oauth is not None and entry.oauth.client_secret:
        yield entry.oauth.client_secret
    if entry.url:
        parts = urlsplit(entry.url)
        yield unquote(parts.password or "")
        yield parts.query
        for _, value in parse_qsl(parts.query):
            yield value


def _segments(url: str | None) -> list[str]:
    return urlsplit(url).path.split("/") if url else []
