"""JSON as editors and agents accept it: with comments and trailing commas."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from toolyard.core.errors import ConfigError

# A string is matched first, so that what looks like a comment inside one is left alone. The closing quote is
# optional and nothing is given back: text that never closes is passed once, not once for each quote in it.
_STRING: Final = r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"?'
_COMMENTS: Final = re.compile(_STRING + r"|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_COMMAS: Final = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)


def parse_jsonc(text: str, *, name: str) -> Any:
    """The value in `text`. Errors name the line: comments are blanked, never cut."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass  # with its comments taken out it may be read
    try:
        return json.loads(_COMMAS.sub(_without_comma, _COMMENTS.sub(_without_comment, text)))
    except RecursionError:
        raise ConfigError("is nested too deeply", where=name, hint="Use fewer levels.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"is not valid JSON: {error.msg.lower()}",
            where=f"{name}:{error.lineno}",
            hint="Check the quotes, commas and brackets there.",
        ) from None
    except ValueError:
        raise ConfigError("holds a number that cannot be read", where=name, hint="Write it as text.") from None


def _without_comment(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _without_comma(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " "
