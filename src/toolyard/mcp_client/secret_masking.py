"""Masks the secrets of a server's entry in its output, its errors and its results.

A server may print the key it got, and our errors quote its last line of stderr. So every text of a server that goes
into an error, a status or a log passes its `SecretMask`, which hides every value of the entry. Results of tools are
data for callers. There, only values that look like secrets by name or form are hidden: a folder in `env` stays
readable in returned paths.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from toolyard.config.models import ServerEntry
from toolyard.config.secret_extraction import looks_secret

_MIN_CHARS = 4
"""Shorter values ("1", "on", "en") are not secrets, and masking them would damage ordinary words."""
_MIN_UNNAMED_CHARS = 8
"""In results, for values whose name does not say that they are secret."""
_ORDINARY = re.compile(
    r"[A-Za-z]+(?:[ _.,:/+-][A-Za-z]+)*"  # words
    r"|[~.]{0,2}/.*"  # a path
    r"|[a-z][a-z0-9+.-]*://[^@?#]*"  # a URL without user or parameters
    r"|[\d\s.,:_/-]+"  # numbers, dates
    r"|[\w.-]+:\d+",  # host and port
    re.DOTALL,
)
_MASKED = "***"
_REMEMBERED_TOKENS = 8
"""Tokens of the last sign-ins; older ones have expired."""


class SecretMask:
    """Masks a server's secrets. It learns them at each start, when their values are resolved."""

    __slots__ = ("_answers", "_entry", "_secrets", "_tokens", "_values")

    def __init__(self) -> None:
        self._entry: set[str] = set()
        self._secrets: set[str] = set()
        self._tokens: deque[str] = deque(maxlen=_REMEMBERED_TOKENS)
        self._values: list[str] = []
        self._answers: list[str] = []

    def learn_entry(self, written: ServerEntry, started: ServerEntry, more: Iterable[str] = ()) -> None:
        """Learns the secrets of an entry: as written in the file, and with variables expanded (`started`).

        `more` are secrets outside of the entry.
        """
        named = list(_named_values(started))
        # A word that contains the value of a variable is always secret.
        before = {*written.command_line, *_segments(written.url)}
        words = {*started.command_line, *_segments(started.url)} - before
        named += [word.partition("=")[::2] if "=" in word else ("", word) for word in words]
        more = tuple(more)
        self._entry |= {value for _, value in named} | words | {*more}
        self._secrets |= {value for name, value in named if _is_secret(name, value)} | {*more}
        self._rebuild()

    def learn_tokens(self, *tokens: str) -> None:
        """Learns the tokens of a sign-in."""
        self._tokens.extend(tokens)
        self._rebuild()

    def _rebuild(self) -> None:
        self._values = _longest_first((*self._entry, *self._tokens))
        secrets = _longest_first((*self._secrets, *self._tokens))
        self._answers = _longest_first(form for value in secrets for form in _encoded_forms(value))

    def __call__(self, text: str) -> str:
        return _mask_values(text, self._values)

    def mask_answer(self, value: Any) -> Any:
        """Returns part of a result with secrets masked in all nested strings."""
        return self._mask_nested(value) if self._answers else value

    def _mask_nested(self, value: Any) -> Any:
        if isinstance(value, str):
            return _mask_values(value, self._answers)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {_mask_values(key, self._answers): self._mask_nested(item) for key, item in items}
        if isinstance(value, list):
            return [self._mask_nested(item) for item in cast("list[Any]", value)]
        return value


def _mask_values(text: str, values: Iterable[str]) -> str:
    for value in values:
        if value in text:
            text = text.replace(value, _MASKED)
    return text


def _longest_first(values: Iterable[str]) -> list[str]:
    """Longest first: masking a contained value first would leave the ends of the longer one."""
    return sorted({value for value in values if len(value) >= _MIN_CHARS}, key=len, reverse=True)


def _encoded_forms(value: str) -> Iterator[str]:
    """Yields the encodings of a value in a result: plain, JSON, URL."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")


def _is_secret(name: str, value: str) -> bool:
    if looks_secret(name, value):
        return True
    return len(value) >= _MIN_UNNAMED_CHARS and not _ORDINARY.fullmatch(value)


def _named_values(entry: ServerEntry) -> Iterator[tuple[str, str]]:
    yield from entry.env.items()
    for name, header in entry.headers.items():
        yield name, header
        for word in header.split()[1:]:  # "Bearer abc": the token alone, too
            yield name, word
    if entry.oauth is not None and entry.oauth.client_secret:
        yield "client_secret", entry.oauth.client_secret
    if entry.url:
        parts = urlsplit(entry.url)
        yield "password", unquote(parts.password or "")
        yield "query", parts.query
        yield from parse_qsl(parts.query)


def _segments(url: str | None) -> list[str]:
    return urlsplit(url).path.split("/") if url else []
