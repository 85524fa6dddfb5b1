"""Secrets masked in place, so that the rest of a text can be sent, stored or answered.

Masking never removes or adds a line: line numbers stay those of the file. A private key is masked line by line.
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
"""Passwords without a known format are looked for in this much of a file: the patterns for them are slow."""
_NAME = re.compile(r"[A-Za-z_./-]+")
"""`token = "client_secret_post"` names something; a reviewer has to see it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A line in which a secret was masked."""

    line: int
    kind: str
    is_definite: bool
    """Has a format that only keys have; others stand behind a word like `password`, or look random."""


@dataclass(frozen=True, slots=True)
class RedactedText:
    text: str
    secrets: tuple[Secret, ...] = ()


@dataclass(frozen=True, slots=True)
class ScannedLine:
    number: int
    text: str
    hits: list[SecretHit]
    part: KeyPart

    @property
    def is_key_line(self) -> bool:
        return self.part in {KeyPart.FIRST, KeyPart.INNER}


_HitsOf = Callable[[int, str, str], list[SecretHit]]
"""The secrets of a line, from its number, its text and the line above it, which is empty for the first."""


def scan_lines(
    lines: Iterable[tuple[int, str]], hits_of: _HitsOf, check_time: Callable[[], None]
) -> Iterator[ScannedLine]:
    """Each numbered line with its secrets. A private key over several lines is one hit, at its first line."""
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
    """A file's text without its secrets. In a file for secrets, plain words behind `password` are masked too.

    Lines with the comment `pragma: allowlist secret` stay as they are, but for private keys.
    """
    looking = _load_scanner()
    suspected = text.count("\n", 0, _SUSPECTED_CHARS)

    def hits_of(number: int, line: str, above: str) -> list[SecretHit]:
        if looking is None:
            return []
        found = (
            looking.find_secrets(path, line, check_time)
            if number <= suspected
            else looking.find_known_formats(line, check_time)
        )
        found = [hit for hit in found if is_for_secrets or _is_value(hit, line)]
        return [] if found and looking.is_allowed(path, line, above) else found

    return _redact_lines(text, hits_of, check_time)


def mask_known_secrets(text: str) -> str:
    """An answer without what has a format that only keys have."""
    looking = _load_scanner()

    def hits_of(number: int, line: str, above: str) -> list[SecretHit]:
        del number, above
        return [hit for hit in looking.find_known_formats(line) if hit.is_definite] if looking is not None else []

    return _redact_lines(text, hits_of, lambda: None).text


def line_slices(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a text a slice at a time, each slice with the number of its first line, from 0.

    To split a large file in one call would keep every other thread waiting until it is done.
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
    """None without the extra `assistant`: then only private keys over several lines are found."""
    try:
        return shared_scanner()
    except ImportError:
        return None
