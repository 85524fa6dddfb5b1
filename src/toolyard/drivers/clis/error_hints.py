"""Classifies errors of CLIs and their providers, and suggests what the user can do.

CLIs pass on the provider's error in different words, so the text is matched. The first pattern wins: some providers
report an invalid key with status 400.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """A kind of error, recognized by its text."""

    pattern: re.Pattern[str]
    hint: str
    """`{cli}` and `{key}` are replaced by the CLI's title and the variable of its key."""
    retryable: bool = False


def _error_pattern(pattern: str, hint: str, *, retryable: bool = False) -> ErrorPattern:
    return ErrorPattern(re.compile(pattern, re.IGNORECASE), hint, retryable)


ERROR_PATTERNS = (
    _error_pattern(
        r"enterprise (mcp config|policy)",
        "Machine-wide settings of {cli} allow only certain MCP servers: ask their administrator.",
    ),
    _error_pattern(
        r"api.?key|\b401\b|\b403\b|unauthori[sz]ed|authenticat|not logged in|/login|auth method|credential"
        r"|permission_denied",
        "Set {key} to a valid key of your provider, or log in with {cli} itself.",
    ),
    _error_pattern(
        r"\b429\b|rate.?limit|quota|resource_exhausted|too many requests|overloaded|\b529\b|credit balance",
        "The provider's rate limit or quota is exhausted. Try again later, or check your plan.",
        retryable=True,
    ),
    _error_pattern(
        r"\b404\b|model[^.]{0,80}(not found|not exist|not supported|unknown|invalid|may not have access)"
        r"|(unknown|invalid|unsupported) model",
        "Name a model that your provider offers and your key may use.",
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
        "The provider reports an internal error. Try again later.",
        retryable=True,
    ),
    _error_pattern(
        r"ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|fetch failed|connection|disconnected|network"
        r"|unable to connect|timed? ?out",
        "The provider could not be reached. Check the network, the proxy variables and the base URL.",
        retryable=True,
    ),
    _error_pattern(
        r"\b400\b|invalid_argument|bad request", "The provider refused the request. Another model may accept it."
    ),
)


def matching_pattern(message: str) -> ErrorPattern | None:
    """Returns the first pattern that matches the message."""
    return next((each for each in ERROR_PATTERNS if each.pattern.search(message)), None)


def error_hint(message: str, cli: str, keys: tuple[str, ...]) -> str:
    """Returns what to do about an error; empty if unknown."""
    trouble = matching_pattern(message)
    return trouble.hint.format(cli=cli, key=" or ".join(keys[:2])) if trouble else ""


def is_retryable(message: str) -> bool:
    """Whether the same run may succeed later."""
    trouble = matching_pattern(message)
    return trouble is not None and trouble.retryable
