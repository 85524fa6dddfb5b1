"""How `toolyard threads` prints: coloured in a terminal, plain elsewhere, and nothing that a terminal acts on."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict

import click

from toolyard.assistant.threads.thread import Hit, Message, Summary, Thread, Turn
from toolyard.core.text import printable
from toolyard.snapshots.service.format import age, counted

SHORT = 12
"""Of an id: as much of it as tells threads apart."""
_NS = 1_000_000_000
_LONGEST_LINE = 100
_INDENT = "    "


def as_json(value: object) -> None:
    click.echo(json_text(value))


def json_text(value: object) -> str:
    # JSON leaves DEL as it is; the terminal would act on it.
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")


def one_line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def listed(summaries: tuple[Summary, ...]) -> None:
    rows = [
        (age(round(each.updated * _NS)), counted(each.turns, "turn"), printable(",".join(each.tools)))
        for each in summaries
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for each, row in zip(summaries, rows, strict=True):
        said = "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
        click.echo(f"{_short(each.id)}  {said}  {one_line(each.title)}")


def unlisted(shown: int, total: int) -> str:
    more = total - shown
    are, them = ("is", "it") if more == 1 else ("are", "them")
    return f"{more:,} more {are} not listed: see {them} with `--limit {total}`."


def hits(found: tuple[Hit, ...]) -> None:
    for hit in found:
        who = "asked" if hit.role == "user" else "answered"
        click.echo(f"{_short(hit.thread.id)}  turn {hit.turn}, {who}, {age(round(hit.thread.updated * _NS))}")
        click.echo(f"{_INDENT}{printable(hit.excerpt)}")


def conversation(thread: Thread, last: int | None) -> None:
    """All of it, or the last turns."""
    click.echo(f"thread {click.style(thread.id, bold=True)}")
    click.echo(f"begun {moment(thread.created)}, last changed {moment(thread.updated)}: {turns_of(thread)}")
    for number, turn in _last(thread, last):
        click.echo("")
        click.echo(click.style(heading(number, turn.asked), bold=True))
        _message(turn.asked, click.style("asked", fg="cyan"))
        _message(turn.answered, click.style(printable(answered(turn.answered)), fg="green"))


def _message(message: Message, title: str) -> None:
    click.echo(title)
    for line in message.text.splitlines() or [""]:
        click.echo(f"{_INDENT}{printable(line.expandtabs())}".rstrip())
    if message.files:
        click.echo(f"{_INDENT}files: {printable(', '.join(file.path for file in message.files))}")


def fields(thread: Thread, last: int | None = None) -> dict[str, object]:
    turns = [{"number": number, **asdict(turn)} for number, turn in _last(thread, last)]
    return {**asdict(thread.summary), "turns": turns}


def _last(thread: Thread, count: int | None) -> list[tuple[int, Turn]]:
    return list(enumerate(thread.turns, 1))[-count if count else 0 :]


def is_shown() -> bool:
    """Whether a terminal gets what is printed."""
    return sys.stdout.isatty()


def harmless(text: str) -> str:
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _short(thread: str) -> str:
    return click.style(printable(thread[:SHORT]), bold=True)


def turns_of(thread: Thread) -> str:
    return counted(len(thread.turns), "turn")


def heading(number: int, asked: Message) -> str:
    words = [f"{number}.", printable(asked.tool), moment(asked.at) if asked.at else ""]
    return "  ".join(word for word in words if word)


def answered(message: Message) -> str:
    """Without its tokens: our count is not the provider's, which the answer was given with."""
    return f"answered by {message.model}" if message.model else "answered"
