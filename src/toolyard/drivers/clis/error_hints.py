"""What usually lies behind an error of a CLI or of its provider, and what its user can do about it.

The CLIs pass on what the provider said, each in words of its own, so it is the words that are looked at. The first
kind that matches is the one: an invalid key is told with status 400 by some.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    pattern: re.Pattern[str]
    hint: str
    """`{cli}` and `{key}` stand for the CLI's title and the variable its key is in."""
    retryable: bool = False


def _error_pattern(pattern: str, hint: str, *, retryable: bool = False) -> ErrorPattern:
    return ErrorPattern(re.compile(pattern, re.IGNORECASE), hint, retryable)


ERROR_PATTERNS = (
    _error_pattern(
        r"enterprise (mcp config|policy)",
        "Settings of {cli} for the whole machine allow only the MCP servers that they name: ask who manages them.",
    ),
    _error_pattern(
        r"api.?key|\b401\b|\b403\b|unauthori[sz]ed|authenticat|not logged in|/login|auth method|credential"
        r"|permission_denied",
        "Set {key} to a valid key of your provider, or log in with {cli} itself.",
    ),
    _error_pattern(
        r"\b429\b|rate.?limit|quota|resource_exhausted|too many requests|overloaded|\b529\b|credit balance",
        "The provider limits how much may be asked of it. Try again later, or look at your plan with it.",
        retryable=True,
    ),
    _error_pattern(
        r"\b404\b|model[^.]{0,80}(not found|not exist|not supported|unknown|invalid|may not have access)"
        r"|(unknown|invalid|unsupported) model",
        "Name a model that your provider has and your key may use.",
    ),
    _error_pattern(
        r"input.?(exceeds|too.?large)", "Put the prompt into a file of the workspace, and name that file."
    ),
    _error_pattern(
        r"context.{0,20}(length|window|limit)|prompt is too long|too many tokens|max.{0,10}turns",
        "The task is too long for one run. Split it, or choose a model with a larger context.",
    ),
    _error_pattern(
        r"\b5\d\d\b|internal.?server|high demand|unavailable|bad gateway|\binternal\b",
        "The provider has a fault of its own. Try again later.",
        retryable=True,
    ),
    _error_pattern(
        r"ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|fetch failed|connection|disconnected|network"
        r"|unable to connect|timed? ?out",
        "The provider could not be reached. Look at the network, the proxy variables and the base URL.",
        retryable=True,
    ),
    _error_pattern(
        r"\b400\b|invalid_argument|bad request", "The provider refused the request. Another model may accept it."
    ),
)


def matching_pattern(message: str) -> ErrorPattern | None:
    return next((each for each in ERROR_PATTERNS if each.pattern.search(message)), None)


def error_hint(message: str, cli: str, keys: tuple[str, ...]) -> str:
    """What to do about an error; nothing where that is not known."""
    trouble = matching_pattern(message)
    return trouble.hint.format(cli=cli, key=" or ".join(keys[:2])) if trouble else ""


def is_retryable(message: str) -> bool:
    trouble = matching_pattern(message)
    return trouble is not None and trouble.retryable
