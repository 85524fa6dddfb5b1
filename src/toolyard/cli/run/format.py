"""Tokens, money, time and answers of a run in words."""

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
"""Characters by which a snapshot is named."""
_LONGEST_NAME: Final = 60
_NAMED_PATHS: Final = 3
_ALLOWED_CONTROLS: Final = frozenset("\n\t")
_DELETE, _FIRST_C1, _LAST_C1 = 0x7F, 0x80, 0x9F


def format_tokens(number: int) -> str:
    if number < _THOUSAND:
        return str(number)
    if number < 10 * _THOUSAND:
        return f"{number / _THOUSAND:.1f}k"
    return f"{number / _THOUSAND:.0f}k" if number < _MILLION else f"{number / _MILLION:.1f}M"


def format_cost(cost: float) -> str:
    return f"${cost:.2f}" if cost >= _CENT or not cost else f"${cost:.4f}"


def format_clock(seconds: float) -> str:
    """A time as on a stop watch."""
    whole = max(int(seconds), 0)
    minutes = f"{whole % _HOUR // _MINUTE:02}" if whole >= _HOUR else f"{whole // _MINUTE}"
    return f"{whole // _HOUR}:{minutes}:{whole % _MINUTE:02}" if whole >= _HOUR else f"{minutes}:{whole % _MINUTE:02}"


def format_usage(used: ModelUsage) -> list[str]:
    words = [f"{format_tokens(used.total)} tokens"] if used.total else []
    if words and used.cached:
        words[0] += f" ({format_tokens(used.cached)} cached)"
    return words if used.cost is None else [*words, format_cost(used.cost)]


def short_snapshot(identity: str) -> str:
    return short_name(identity)[:_SNAPSHOT_CHARS]


def format_files(paths: tuple[str, ...], total: int, most: int) -> str:
    """The first of them, and how many more there are."""
    named = [terminal_safe(path).replace("\n", "\\n") for path in paths[:most]]
    left = total - len(named)
    return ", ".join(
        [*named, *([f"{pluralize(left, 'more file') if named else pluralize(left, 'file')}"] * (left > 0))]
    )


def describe_code_operation(event: FileOperated) -> str | None:
    """A change of files that code made or wanted to make. Other operations are calls, which are shown as such."""
    if not event.from_code or not event.changes_files:
        return None
    outcome = "" if event.outcome == "ok" else f": {event.outcome}"
    return (
        f"code called {short_name(event.tool)} {format_files(event.paths, len(event.paths), _NAMED_PATHS)}{outcome}"
    )


def short_name(name: str) -> str:
    """A name that anybody may have chosen, in one line of no great length."""
    line = terminal_safe(name).replace("\n", " ")
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


def describe_vote(agent: str, chosen: str) -> str:
    if not chosen:
        return "voted for nobody"
    return "voted for itself" if chosen == agent else f"voted for {short_name(chosen)}"


def escape_controls(text: str) -> str:
    """An answer as it goes into a file or a pipe: every character but those that only command a terminal."""
    return "".join(
        c if c in _ALLOWED_CONTROLS or not _is_terminal_control(c) else c.encode("unicode_escape").decode()
        for c in text
    )


def _is_terminal_control(character: str) -> bool:
    code = ord(character)
    return code < ord(" ") or code == _DELETE or _FIRST_C1 <= code <= _LAST_C1 or 0xD800 <= code <= 0xDFFF
