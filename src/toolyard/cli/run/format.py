"""Formats tokens, costs, times, files and votes of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from toolyard.cli.drive.format import terminal_safe
from toolyard.models.messages import ModelUsage
from toolyard.snapshots.service.format import pluralize
from toolyard.team.events import FileOperated

NumberFormatter: TypeAlias = Callable[[float], str]
_THOUSAND, _MILLION = 1_000, 1_000_000
_CENT: Final = 0.01
_MINUTE, _HOUR = 60, 3600
_SNAPSHOT_CHARS: Final = 12
"""Characters of a shortened snapshot id."""
_LONGEST_NAME: Final = 60
_NAMED_PATHS: Final = 3
_ALLOWED_CONTROLS: Final = frozenset("\n\t")
_DELETE, _FIRST_C1, _LAST_C1 = 0x7F, 0x80, 0x9F


def format_tokens(number: int) -> str:
    """Returns a token count such as 1.2k."""
    if number < _THOUSAND:
        return str(number)
    if number < 10 * _THOUSAND:
        return f"{number / _THOUSAND:.1f}k"
    return f"{number / _THOUSAND:.0f}k" if number < _MILLION else f"{number / _MILLION:.1f}M"


def format_cost(cost: float) -> str:
    """Returns a cost in USD."""
    return f"${cost:.2f}" if cost >= _CENT or not cost else f"${cost:.4f}"


def format_clock(seconds: float) -> str:
    """Returns a duration as h:mm:ss or m:ss."""
    whole = max(int(seconds), 0)
    minutes = f"{whole % _HOUR // _MINUTE:02}" if whole >= _HOUR else f"{whole // _MINUTE}"
    return f"{whole // _HOUR}:{minutes}:{whole % _MINUTE:02}" if whole >= _HOUR else f"{minutes}:{whole % _MINUTE:02}"


def format_usage(used: ModelUsage) -> list[str]:
    """Returns tokens and cost, as far as they are known."""
    words = [f"{format_tokens(used.total)} tokens"] if used.total else []
    if words and used.cached:
        words[0] += f" ({format_tokens(used.cached)} cached)"
    return words if used.cost is None else [*words, format_cost(used.cost)]


def short_snapshot(identity: str) -> str:
    """Returns a shortened snapshot id."""
    return short_name(identity)[:_SNAPSHOT_CHARS]


def format_files(paths: tuple[str, ...], total: int, most: int) -> str:
    """Returns the first paths, and how many more there are."""
    named = [terminal_safe(path).replace("\n", "\\n") for path in paths[:most]]
    left = total - len(named)
    return ", ".join(
        [*named, *([f"{pluralize(left, 'more file') if named else pluralize(left, 'file')}"] * (left > 0))]
    )


def describe_code_operation(event: FileOperated) -> str | None:
    """Describes a file change made by code; None for others, which are shown as calls."""
    if not event.from_code or not event.changes_files:
        return None
    outcome = "" if event.outcome == "ok" else f": {event.outcome}"
    return (
        f"code called {short_name(event.tool)} {format_files(event.paths, len(event.paths), _NAMED_PATHS)}{outcome}"
    )


def short_name(name: str) -> str:
    """Returns a name, which anyone may have chosen, as one escaped line of limited length."""
    line = terminal_safe(name).replace("\n", " ")
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


def describe_vote(agent: str, chosen: str) -> str:
    """Returns the vote of an agent."""
    if not chosen:
        return "voted for no one"
    return "voted for itself" if chosen == agent else f"voted for {short_name(chosen)}"


def escape_controls(text: str) -> str:
    """Returns an answer for a file or pipe, with terminal control characters escaped."""
    return "".join(
        c if c in _ALLOWED_CONTROLS or not _is_terminal_control(c) else c.encode("unicode_escape").decode()
        for c in text
    )


def _is_terminal_control(character: str) -> bool:
    code = ord(character)
    return code < ord(" ") or code == _DELETE or _FIRST_C1 <= code <= _LAST_C1 or 0xD800 <= code <= 0xDFFF
