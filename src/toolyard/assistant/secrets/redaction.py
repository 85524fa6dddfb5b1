"""Masks secrets in place, so that the rest of a text can be sent, stored or returned.

Masking never adds or removes a line: line numbers stay those of the file. Private keys are masked line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from toolyard.assistant.secrets.private_keys import KeyPart, KeyTracker
from toolyard.assistant.secrets.scanner import MASK, PRIVATE_KEY, SecretHit, SecretScanner, mask_hits, shared_scanner
from toolyard.core.limits import KIB

_CHECK_EVERY = 50
_LONG_LINE = 200
_SLICE_CHARS = 64 * KIB
_SUSPECTED_CHARS = 256 * KIB
"""Passwords without a known format are searched only in this much of a file: their patterns are slow."""
_NAME = re.compile(r"[A-Za-z_./-]+")
"""In `token = "client_secret_post"` the value is a name, which a reviewer has to see."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A line in which a secret was masked."""

    line: int
    kind: str
    is_definite: bool
    """Has a format that only keys have; others follow a word like `password`, or look random."""


@dataclass(frozen=True, slots=True)
class RedactedText:
    """A text with its secrets masked."""

    text: str
    secrets: tuple[Secret, ...] = ()


@dataclass(frozen=True, slots=True)
class ScannedLine:
    """A line with the secrets found in it."""

    number: int
    text: str
    hits: list[SecretHit]
    part: KeyPart

    @property
    def is_key_line(self) -> bool:
        return self.part in {KeyPart.FIRST, KeyPart.INNER}


_HitsOf = Callable[[int, str, str], list[SecretHit]]
"""Finds the secrets of a line, given its number, its text and the line above it (empty for the first)."""


def scan_lines(
    lines: Iterable[tuple[int, str]], hits_of: _HitsOf, check_time: Callable[[], None]
) -> Iterator[ScannedLine]:
    """Yields each numbered line with its secrets. A private key over several lines is one hit, at its first line."""
    keys, last, above = KeyTracker(), -1, ""
    for at, (number, text) in enumerate(lines):
        if not at % _CHECK_EVERY or len(text) > _LONG_LINE:
            check_time()
        part = keys.classify_line(text, follows=number == last + 1)
        if part is KeyPart.FIRST:
            hits = [SecretHit(PRIVATE_KEY, 0, len(text))]
        else:
            hits = [] if part is KeyPart.INNER else hits_of(number, text, above)
        yield ScannedLine(number, text, hits, part)
        last, above = number, text


def redact(path: str, text: str, check_time: Callable[[], None], *, is_for_secrets: bool = False) -> RedactedText:
    """Masks the secrets in a file's text. In a file for secrets, plain words after `password` are masked too.

    Lines with the comment `pragma: allowlist secret` stay unchanged, except for private keys.
    """
    scanner = _load_scanner()
    suspected = text.count("\n", 0, _SUSPECTED_CHARS)

    def hits_of(number: int, line: str, above: str) -> list[SecretHit]:
        if scanner is None:
            return []
        found = (
            scanner.find_secrets(path, line, check_time)
            if number <= suspected
            else scanner.find_known_formats(line, check_time)
        )
        found = [hit for hit in found if is_for_secrets or _is_value(hit, line)]
        return [] if found and scanner.is_allowed(path, line, above) else found

    return _redact_lines(text, hits_of, check_time)


def mask_known_secrets(text: str) -> str:
    """Masks what has a format that only keys have."""
    scanner = _load_scanner()

    def hits_of(number: int, line: str, above: str) -> list[SecretHit]:
        del number, above
        return [hit for hit in scanner.find_known_formats(line) if hit.is_definite] if scanner is not None else []

    return _redact_lines(text, hits_of, lambda: None).text


def line_slices(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the lines in slices, each with the number of its first line, from 0.

    Splitting a large file in one call would block every other thread.
    """
    number = at = 0
    while at >= 0:
        end = text.find("\n", at + _SLICE_CHARS)
        lines = (text[at:] if end < 0 else text[at:end]).split("\n")
        yield number, lines
        number += len(lines)
        at = end + 1 if end >= 0 else end


def _redact_lines(text: str, hits_of: _HitsOf, check_time: Callable[[], None]) -> RedactedText:
    secrets: list[Secret] = []
    changed: dict[int, str] = {}
    begun = 0
    numbered = chain.from_iterable(enumerate(lines, first) for first, lines in line_slices(text))
    for line in scan_lines(numbered, hits_of, check_time):
        if line.part is KeyPart.BEGIN:
            begun = line.number
        if line.is_key_line or line.hits:
            changed[line.number] = MASK if line.is_key_line else mask_hits(line.text, line.hits)
        if line.hits:
            number = begun if line.part is KeyPart.FIRST else line.number
            worst = next((hit for hit in line.hits if hit.is_definite), line.hits[0])
            secrets.append(Secret(number + 1, worst.kind, worst.is_definite))
    if not changed:
        return RedactedText(text)
    slices = (
        "\n".join([changed.get(first + at, line) for at, line in enumerate(lines)])
        for first, lines in line_slices(text)
    )
    return RedactedText("\n".join(slices), tuple(secrets))


def _is_value(hit: SecretHit, line: str) -> bool:
    return hit.is_definite or _NAME.fullmatch(line, hit.start, hit.end) is None


def _load_scanner() -> SecretScanner | None:
    """Returns None without the `assistant` extra: then only private keys over several lines are found."""
    try:
        return shared_scanner()
    except ImportError:
        return None
