"""Keeps the secrets of a server's entry out of everything that is said about it, and out of what it answers.

A server may print the key it was given, and its last line of stderr is part of our errors. So every text that comes
from a server and goes into an error, a status or a log passes its `SecretMask`, which hides every value of the entry. What
a tool answers is data that callers work with. There, only values that are secrets by their name or their look are
hidden: a folder in `env` stays readable in the paths that the server returns.
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
"""Values shorter than this ("1", "on", "en") are no secrets, and masking them would eat ordinary words."""
_MIN_UNNAMED_CHARS = 8
"""In answers, of a value whose name does not say that it is a secret."""
_ORDINARY = re.compile(
    r"[A-Za-z]+(?:[ _.,:/+-][A-Za-z]+)*"  # words
    r"|[~.]{0,2}/.*"  # a path
    r"|[a-z][a-z0-9+.-]*://[^@?#]*"  # an address without a user or parameters
    r"|[\d\s.,:_/-]+"  # numbers, dates
    r"|[\w.-]+:\d+",  # a host and its port
    re.DOTALL,
)
_MASKED = "***"
_REMEMBERED_TOKENS = 8
"""The last ones that were handed out at a sign-in; older ones open nothing any more."""


class SecretMask:
    """Learns a server's secrets when it is started: before that their values are in nobody's hands."""

    __slots__ = ("_answers", "_entry", "_secrets", "_tokens", "_values")

    def __init__(self) -> None:
        self._entry: set[str] = set()
        self._secrets: set[str] = set()
        self._tokens: deque[str] = deque(maxlen=_REMEMBERED_TOKENS)
        self._values: list[str] = []
        self._answers: list[str] = []

    def learn_entry(self, written: ServerEntry, started: ServerEntry, more: Iterable[str] = ()) -> None:
        """`written` is the entry of the file, `started` the same with the values of variables in it.

        `more` are secrets that stand in no entry.
        """
        named = list(_named_values(started))
        # A word that holds the value of a variable is a secret wherever it stands.
        before = {*written.command_line, *_segments(written.url)}
        words = {*started.command_line, *_segments(started.url)} - before
        named += [word.partition("=")[::2] if "=" in word else ("", word) for word in words]
        more = tuple(more)
        self._entry |= {value for _, value in named} | words | {*more}
        self._secrets |= {value for name, value in named if _is_secret(name, value)} | {*more}
        self._rebuild()

    def learn_tokens(self, *tokens: str) -> None:
        """What somebody who signed in was given for this server."""
        self._tokens.extend(tokens)
        self._rebuild()

    def _rebuild(self) -> None:
        self._values = _longest_first((*self._entry, *self._tokens))
        secrets = _longest_first((*self._secrets, *self._tokens))
        self._answers = _longest_first(form for value in secrets for form in _encoded_forms(value))

    def __call__(self, text: str) -> str:
        return _mask_values(text, self._values)

    def mask_answer(self, value: Any) -> Any:
        """A part of a server's answer without the secrets of its entry, in strings at any depth."""
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
    """A value that contains another one must not leave its ends behind."""
    return sorted({value for value in values if len(value) >= _MIN_CHARS}, key=len, reverse=True)


def _encoded_forms(value: str) -> Iterator[str]:
    """How a value may stand in an answer: as it is, within JSON, within an address."""
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
