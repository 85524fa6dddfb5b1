"""Parses JSON with comments and trailing commas, as editors and agents accept it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from toolyard.core.errors import ConfigError

# Strings are matched first, so that comment markers inside them are ignored. The closing quote is optional and the
# match is possessive: an unterminated string is scanned once, not once for each quote in it.
_STRING: Final = r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"?'
_COMMENTS: Final = re.compile(_STRING + r"|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_TOKENS: Final = re.compile(r"(?P<key>" + _STRING + r")(?=\s*+:)|" + _STRING + r"|[{}]", re.DOTALL)
_COMMAS: Final = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)


class _RepeatedKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def parse_jsonc(text: str, *, name: str) -> Any:
    """Parses `text`. Errors name the line, because comments are blanked, not removed. A repeated key is an error."""
    try:
        return json.loads(text, object_pairs_hook=_object_without_repeats)
    except _RepeatedKeyError as error:
        raise _repeated_key_error(error.key, text, name) from None
    except (ValueError, RecursionError):
        pass  # it may be valid without its comments
    bare = _COMMAS.sub(_without_comma, _COMMENTS.sub(_without_comment, text))
    try:
        return json.loads(bare, object_pairs_hook=_object_without_repeats)
    except _RepeatedKeyError as error:
        raise _repeated_key_error(error.key, bare, name) from None
    except RecursionError:
        raise ConfigError("is nested too deeply", where=name, hint="Use fewer levels.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"is not valid JSON: {error.msg.lower()}",
            where=f"{name}:{error.lineno}",
            hint="Check the quotes, commas and brackets there.",
        ) from None
    except ValueError:
        raise ConfigError("contains a number that cannot be read", where=name, hint="Write it as text.") from None


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        raise _RepeatedKeyError(next(key for key, _ in pairs if key in seen or seen.add(key)))
    return value


def _repeated_key_error(key: str, text: str, name: str) -> ConfigError:
    return ConfigError(
        f'the key "{key}" appears twice',
        where=f"{name}:{_line_of_repeated(key, text)}",
        hint="Programs differ in which of the two they use: keep only one.",
    )


def _line_of_repeated(key: str, text: str) -> int:
    """Returns the line of the second `key` of an object. `text` is valid JSON, so tracking braces is enough."""
    counts: list[int] = []
    for token in _TOKENS.finditer(text):
        if token[0] == "{":
            counts.append(0)
        elif token[0] == "}":
            counts.pop()
        elif token["key"] is not None and json.loads(token["key"], strict=False) == key:
            counts[-1] += 1
            if counts[-1] > 1:
                return text.count("\n", 0, token.start()) + 1
    return 1


def _without_comment(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _without_comma(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " "
