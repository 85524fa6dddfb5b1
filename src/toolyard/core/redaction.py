"""Keys and passwords, taken out of what others say.

Providers repeat the key that they were sent, whole or in part, and as their format has it: with percent signs, with
the escapes of JSON. Where a line holds a secret only when it is read that way, it is shown as it reads.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, count, takewhile
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

MASK: Final = "***"
_SHORTEST: Final = 8
"""A shorter one hides nothing, and would be found in innocent words."""
_PIECE: Final = 12
"""So many characters of a longer one in a row are as good as all of it. The last four, which providers like to show,
are not."""
_WORD: Final = 4
"""Bytes. Every piece, and the shortest secret, has one that begins where a word of the text does, or every second."""
_AT_ONCE: Final = 64 * 1024
"""Characters or words: other threads have their turn after each time."""
_JSON_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\([\"\\/])")
_QUOTED: Final = '"\\/'
"""What has a shorter escape in JSON: most secrets have none of it, and most texts have many such escapes."""


def _unescaped(text: str) -> str:
    return _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


@dataclass(frozen=True, slots=True)
class _Escape:
    sign: str
    """How it begins."""
    pattern: re.Pattern[str]
    read: Callable[[str], str]

    def next(self, text: str, start: int) -> int:
        """Where the next one is; -1 where there is none. The pattern alone would hold up other threads for longer."""
        at = text.find(self.sign, start)
        while at >= 0 and not self.pattern.match(text, at):
            at = text.find(self.sign, at + 1)
        return at


_PERCENT: Final = _Escape("%", re.compile(r"%[0-9a-fA-F]{2}"), unquote)
_JSON: Final = _Escape("\\u", _JSON_ESCAPE, _unescaped)
_ANY_JSON: Final = _Escape("\\", _JSON_ESCAPE, _unescaped)


def secrets_of(*addresses: str, key: str = "") -> tuple[str, ...]:
    """What is to be kept secret of a key, and of addresses that may hold names, passwords and keys of their own."""
    found = [key]
    for address in addresses:
        parts = urlsplit(address)
        who = parts.netloc.rpartition("@")[0]
        plain = unquote(who)
        found += [who, plain, unquote(who.partition(":")[2])]
        if len(plain) >= _SHORTEST:
            found.append(base64.b64encode(plain.encode()).decode())
        found += [value for _, value in parse_qsl(parts.query)]
    return tuple(dict.fromkeys(secret for secret in found if len(secret) >= _SHORTEST))


def masked(text: str, secrets: tuple[str, ...]) -> str:
    """Also for texts of megabytes, which hardly ever hold one."""
    if not secrets:
        return text
    text = _without(text, secrets)
    is_quoted = any(sign in secret for secret in secrets for sign in _QUOTED)
    for escape in (_PERCENT, _ANY_JSON if is_quoted else _JSON):
        text = "".join(_as_it_reads(text, secrets, escape))
    return text


def _as_it_reads(text: str, secrets: tuple[str, ...], escape: _Escape) -> Iterator[str]:
    """The text, in parts: of the lines with escapes in them, those as they read that hold a secret then."""
    done = 0
    while (found := escape.next(text, done)) >= 0:
        start = text.rfind("\n", done, found) + 1 or done
        end = text.find("\n", found)
        end = len(text) if end < 0 else end
        plain = escape.read(text[start:end])
        without = _without(plain, secrets)
        yield text[done:start]
        yield text[start:end] if without == plain else without
        done = end
    yield text[done:]


def _without(text: str, secrets: tuple[str, ...]) -> str:
    pieces = (text[at : at + _AT_ONCE] for at in range(0, len(text), _AT_ONCE))
    data = b"".join(piece.encode("utf-8", "surrogatepass") for piece in pieces)
    parts: list[bytes] = []
    done = 0
    for start, stop in _spans(data, secrets):
        parts += (data[done:start], MASK.encode())
        done = stop
    return b"".join((*parts, data[done:])).decode("utf-8", "replace") if parts else text


def _spans(data: bytes, secrets: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Where a piece of a secret stands, with all before and after it that goes on like the secret.

    Looked at is only every second word or so: no piece is so short that it lies between two. That is what makes it
    quick, whatever number of secrets there is.
    """
    look = _looking_for(secrets)
    words = memoryview(data + bytes(-len(data) % _WORD)).cast("I")[:: look.step // _WORD]
    end = 0
    for at in (look.step * number for number in _known(words, look)):
        for secret, offset in look.places[words[at // look.step]] if at >= end else ():
            before = _alike(data[max(at - offset, end) : at][::-1], secret[:offset][::-1])
            after = _alike(data[at : at + len(secret) - offset], secret[offset:])
            if before + after >= min(len(secret), _PIECE):
                end = at + after
                yield at - before, end
                break


def _known(words: memoryview[int], look: _Look) -> Iterator[int]:
    """The numbers of the words that some secret has."""
    for first in range(0, len(words), _AT_ONCE):
        yield from compress(count(first), map(look.places.__contains__, words[first : first + _AT_ONCE]))


@dataclass(frozen=True, slots=True)
class _Look:
    places: Mapping[int, Sequence[tuple[bytes, int]]]
    """In which secrets a word stands, and where."""
    step: int
    """Bytes from one word that is looked at to the next."""


@lru_cache(maxsize=64)
def _looking_for(secrets: tuple[str, ...]) -> _Look:
    places: dict[int, list[tuple[bytes, int]]] = {}
    spelled = [secret.encode("utf-8", "surrogatepass") for secret in secrets]
    for secret in spelled:
        for offset in range(len(secret) - _WORD + 1):
            word = int.from_bytes(secret[offset : offset + _WORD], sys.byteorder)
            places.setdefault(word, []).append((secret, offset))
    is_short = any(len(secret) < _PIECE for secret in spelled)
    return _Look(places, _WORD if is_short else 2 * _WORD)


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes they begin with are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
