"""Prints the results of `toolyard threads`: coloured in a terminal, plain elsewhere, control characters escaped."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict

import click

from toolyard.assistant.threads.thread import Message, Thread, ThreadHit, ThreadSummary, Turn
from toolyard.core.text import printable
from toolyard.snapshots.service.format import pluralize, relative_age

SHORT = 12
"""Characters of a shortened thread id."""
_NS = 1_000_000_000
_LONGEST_LINE = 100
_INDENT = "    "


def print_json(value: object) -> None:
    """Prints a value as JSON."""
    click.echo(json_text(value))


def json_text(value: object) -> str:
    """Returns indented JSON that is safe for a terminal."""
    # json.dumps does not escape DEL, which terminals interpret.
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")


def one_line(text: str) -> str:
    """Returns a text shortened to one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def print_list(summaries: tuple[ThreadSummary, ...]) -> None:
    """Prints one line per thread."""
    rows = [
        (relative_age(round(each.updated * _NS)), pluralize(each.turns, "turn"), printable(",".join(each.tools)))
        for each in summaries
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for each, row in zip(summaries, rows, strict=True):
        columns = "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
        click.echo(f"{_short_id(each.id)}  {columns}  {one_line(each.title)}")


def unlisted_note(shown: int, total: int) -> str:
    """Returns a note about threads beyond the limit."""
    more = total - shown
    are, them = ("is", "it") if more == 1 else ("are", "them")
    return f"{more:,} more {are} not listed: show {them} with `--limit {total}`."


def print_hits(found: tuple[ThreadHit, ...]) -> None:
    """Prints search results."""
    for hit in found:
        who = "asked" if hit.role == "user" else "answered"
        click.echo(
            f"{_short_id(hit.thread.id)}  turn {hit.turn}, {who}, {relative_age(round(hit.thread.updated * _NS))}"
        )
        click.echo(f"{_INDENT}{printable(hit.excerpt)}")


def print_thread(thread: Thread, last: int | None) -> None:
    """Prints a thread, or its last turns."""
    click.echo(f"thread {click.style(thread.id, bold=True)}")
    click.echo(
        f"started {format_time(thread.created)}, last changed {format_time(thread.updated)}: {count_turns(thread)}"
    )
    for number, turn in _last_turns(thread, last):
        click.echo("")
        click.echo(click.style(turn_heading(number, turn.asked), bold=True))
        _print_message(turn.asked, click.style("asked", fg="cyan"))
        _print_message(turn.answered, click.style(printable(answer_heading(turn.answered)), fg="green"))


def _print_message(message: Message, title: str) -> None:
    click.echo(title)
    for line in message.text.splitlines() or [""]:
        click.echo(f"{_INDENT}{printable(line.expandtabs())}".rstrip())
    if message.files:
        click.echo(f"{_INDENT}files: {printable(', '.join(file.path for file in message.files))}")


def thread_fields(thread: Thread, last: int | None = None) -> dict[str, object]:
    """Returns a thread as JSON fields."""
    turns = [{"number": number, **asdict(turn)} for number, turn in _last_turns(thread, last)]
    return {**asdict(thread.summary), "turns": turns}


def _last_turns(thread: Thread, count: int | None) -> list[tuple[int, Turn]]:
    return list(enumerate(thread.turns, 1))[-count if count else 0 :]


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def escape_lines(text: str) -> str:
    """Returns the text with control characters escaped, line by line."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def format_time(seconds: float) -> str:
    """Returns a local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _short_id(thread: str) -> str:
    return click.style(printable(thread[:SHORT]), bold=True)


def count_turns(thread: Thread) -> str:
    """Returns the number of turns as text."""
    return pluralize(len(thread.turns), "turn")


def turn_heading(number: int, asked: Message) -> str:
    """Returns the heading of a turn: number, tool and time."""
    words = [f"{number}.", printable(asked.tool), format_time(asked.at) if asked.at else ""]
    return "  ".join(word for word in words if word)


def answer_heading(message: Message) -> str:
    """Returns who answered. Omits the token count, which differs from the provider's."""
    return f"answered by {message.model}" if message.model else "answered"
