"""Keys and passwords, taken out of what others say.

Providers repeat the key that they were sent, whole or in part, and as their format has it: with percent signs, with
the escapes of JSON. Where a text holds a secret only when it is read that way, it is shown as it reads.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

MASK: Final = "***"
_SHORTEST: Final = 8
"""A shorter one hides nothing, and would be found in innocent words."""
_PIECE: Final = 12
"""So many characters of a longer one in a row are as good as all of it. The last four, which providers like to show,
are not."""
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\([\"\\/])")


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


def masked(text: str, secrets: Sequence[str]) -> str:
    text = _without(text, secrets)
    for read in (unquote, _unescaped):
        plain = read(text)
        without = _without(plain, secrets)
        if without != plain:
            text = without
    return text


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
        if len(secret) > _PIECE:
            text = _without_pieces(text, secret)
    return text


def _without_pieces(text: str, secret: str) -> str:
    """Where a part of a secret begins, all that goes on like it goes too."""
    for start in range(len(secret) - _PIECE + 1):
        at = text.find(secret[start : start + _PIECE])
        while at >= 0:
            length = _PIECE
            while text[at + length : at + length + 1] == secret[start + length : start + length + 1] != "":
                length += 1
            text = f"{text[:at]}{MASK}{text[at + length :]}"
            at = text.find(secret[start : start + _PIECE], at)
    return text


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)
