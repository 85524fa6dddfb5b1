"""One agent of a run on the screen: a panel with the last things it said and did, or a few lines where room is short.

Everything comes out as lines of exactly the width that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from toolyard.cli.drive import rows as drive_rows
from toolyard.cli.drive.format import clean, span
from toolyard.cli.run import format as words
from toolyard.cli.run.state import Agent, Call, Item, Remark, State, Words

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND: Final = 8
_THINKING: Final = "dim italic"
_COLOURS: Final = {
    State.READY: "bright_black",
    State.WORKING: "cyan",
    State.WAITING: "yellow",
    State.ANSWERED: "green",
    State.VOTED: "green",
    State.FAILED: "red",
}
_MARKS: Final = {
    State.READY: "○",
    State.WAITING: "◌",
    State.ANSWERED: "★",
    State.VOTED: "✓",
    State.FAILED: "✗",
}
_SIDES: Final = 4
"""Columns of a panel's frame."""
_NARROW: Final = 12
_STATE_WIDTH: Final = 12
"""Columns for the state of an agent that has one line."""
_MOST_HANGING: Final = 3
_MOST_WIDE: Final = 1.5
"""Characters of text that are laid out for each column of a line: those before would not be seen."""


@dataclass(frozen=True, slots=True)
class Pen:
    """What drawing needs to know beside what is drawn."""

    console: Console
    now: float

    @property
    def frame(self) -> str:
        return _FRAMES[int(self.now * _FRAMES_A_SECOND) % len(_FRAMES)]


def fitted(line: Text, width: int) -> Text:
    """Exactly `width` columns of it."""
    line = line.copy()
    line.truncate(max(width, 0), overflow="ellipsis", pad=True)
    return line


def split_line(left: Text, right: Text, width: int) -> Text:
    """Two texts at the ends of a line. The left one gives way."""
    room = width - right.cell_len - 1
    if room < min(left.cell_len, _NARROW):
        return fitted(left, width)
    return Text.assemble(fitted(left, room), " ", right)


def panel(agent: Agent, width: int, height: int, pen: Pen) -> list[Text]:
    """`height` lines: a frame in the colour of its state, who and what above, files and costs below."""
    inside = max(width - _SIDES, 1)
    colour = _COLOURS[agent.state]
    body = tail(agent, inside, max(height - 2, 0), pen)
    name, state, cost = _name(agent, pen), doing(agent, pen), costs(agent)
    full = Text.assemble(name, (f"  {_model(agent)}", "dim"))
    top = _edge(("╭", "╮"), full if _fits(full, state, width) else name, state, width, colour)
    told = changes(agent)
    bottom = _edge(
        ("╰", "╯"), told if _fits(told, cost, width) else changes(agent, is_short=True), cost, width, colour
    )
    side = Text("│", colour)
    return [top, *(Text.assemble(side, " ", line, " ", side) for line in body), bottom][:height]


def rows(agent: Agent, width: int, height: int, pen: Pen, names: int = 0) -> list[Text]:
    """`height` lines without a frame: who it is, what it does and, where there is room, the last that it said."""
    name = _name(agent, pen)
    left = Text.assemble(name, " " * max(names + 2 - name.cell_len, 0), "  ", doing(agent, pen))
    if height > 1:
        left.append(f"  {_model(agent)}", "dim")
    else:
        # Where everybody's words begin, so that the eye finds them.
        left.pad_right(max(names + 4 + _STATE_WIDTH - left.cell_len, 0))
        left.append("  ").append_text(_last_line(agent, width, pen))
    first = split_line(left, costs(agent), width)
    return [first, *(Text.assemble("    ", line) for line in tail(agent, max(width - 4, 1), height - 1, pen))][
        :height
    ]


def tail(agent: Agent, width: int, height: int, pen: Pen) -> list[Text]:
    """The last `height` lines of what an agent said and did, from the top where there are fewer."""
    found: list[Text] = []
    for item in reversed(agent.items):
        if len(found) >= height:
            break
        found[:0] = _lines(item, agent.info.workspace, width, height, pen)
    found = found[-height:] if height > 0 else []
    return [fitted(line, width) for line in found] + [Text(" " * width)] * (height - len(found))


def doing(agent: Agent, pen: Pen) -> Text:
    colour = _COLOURS[agent.state]
    match agent.state:
        case State.READY:
            return Text("not begun", colour)
        case State.WORKING:
            return Text(_at_work(agent, pen), colour)
        case State.WAITING:
            left = agent.waits_until - pen.now
            return Text(f"waiting {left:.0f} s for the model" if left >= 1 else "trying again", colour)
        case State.ANSWERED:
            return Text("answered", colour)
        case State.VOTED:
            return Text(words.choice(agent.info.id, agent.choice), colour)
        case State.FAILED:
            return Text("failed", colour)


def costs(agent: Agent) -> Text:
    told: list[str] = []
    if agent.spent.total:
        told.append(f"{words.tokens(agent.spent.total)} tok")
    if agent.spent.cost is not None:
        told.append(words.money(agent.spent.cost))
    return Text(" · ".join(told), "dim")


def changes(agent: Agent, *, is_short: bool = False) -> Text:
    told = Text()
    if count := agent.files_changed:
        told.append(f"± {count} file{'s' * (count != 1)}", "magenta")
    if agent.snapshot and not is_short:
        told.append(f"  {words.snapshot(agent.snapshot)}", "dim")
    return told


def _at_work(agent: Agent, pen: Pen) -> str:
    last_call = next(reversed(agent.calls.values()), None)
    if last_call is not None:
        took = span(pen.now - last_call.began) if pen.now - last_call.began >= 1 else ""
        return f"{last_call.call.name} {took}".strip()
    last = agent.items[-1] if agent.items else None
    if isinstance(last, Words):
        return "thinking" if last.is_thinking else "writing"
    return "working"


def _last_line(agent: Agent, width: int, pen: Pen) -> Text:
    for line in reversed(tail(agent, width, 3, pen)):
        if plain := line.plain.strip():
            return Text(plain, "dim")
    return Text()


def _name(agent: Agent, pen: Pen) -> Text:
    mark = _MARKS.get(agent.state, pen.frame)
    return Text.assemble((mark, _COLOURS[agent.state]), " ", (words.named(agent.info.id), "bold"))


def _model(agent: Agent) -> str:
    return words.named(agent.info.model or agent.info.backend)


def _fits(left: Text, right: Text, width: int) -> bool:
    return left.cell_len + right.cell_len + 3 <= width - _SIDES - 2


def _edge(corners: tuple[str, str], left: Text, right: Text, width: int, colour: str) -> Text:
    """A border with a text at each end. What there is no room for is left out, the left text last."""
    first, last = corners
    room = width - _SIDES - 2
    if not _fits(left, right, width):
        spared = room - left.cell_len - 3
        right = fitted(right, spared) if spared >= _NARROW else Text()
        left = fitted(left, min(left.cell_len, max(room, 0)))
    line = Text.assemble((f"{first}─", colour))
    line = line.append(" ").append_text(left).append(" ") if left.plain.strip() else line
    closing = Text.assemble(" ", right, " ") if right.plain.strip() else Text()
    line.append("─" * (width - 2 - line.cell_len - closing.cell_len), colour)
    return fitted(line.append_text(closing).append(f"─{last}", colour), width)


def _lines(item: Item, workspace: str, width: int, height: int, pen: Pen) -> list[Text]:
    match item:
        case Words():
            return _said(item, width, height, pen)
        case Remark():
            first = Text.assemble("  ", (item.mark, item.style or "dim"), " ")
            return _hanging(first, Text(item.text, item.style), width, pen)
        case Call() if item.came is None:
            return [drive_rows.under_way(item.call, workspace, pen.now - item.began, pen.frame, width)]
        case Call():
            return _over(item, workspace, width, pen)


def _over(item: Call, workspace: str, width: int, pen: Pen) -> list[Text]:
    assert item.came is not None  # noqa: S101 - the caller's case
    first, *more = drive_rows.over(item.call, workspace, item.came, item.seconds, width)
    return [first, *(line for why in more for line in _hanging(Text("    "), _stripped(why), width, pen))]


def _hanging(first: Text, text: Text, width: int, pen: Pen) -> list[Text]:
    """A text that goes on below itself, and not without end."""
    room = max(width - first.cell_len, 1)
    found = [text] if text.cell_len <= room else [*text.wrap(pen.console, room)]
    if len(found) > _MOST_HANGING:
        found = [*found[: _MOST_HANGING - 1], fitted(Text("").join(found[_MOST_HANGING - 1 :]), room)]
    indent = Text(" " * first.cell_len)
    return [Text.assemble(indent if number else first, line) for number, line in enumerate(found)]


def _stripped(line: Text) -> Text:
    return line[len(line.plain) - len(line.plain.lstrip(" ")) :]


def _said(item: Words, width: int, height: int, pen: Pen) -> list[Text]:
    most = int(width * height * _MOST_WIDE) + width
    text = clean(item.text[-most:]).strip("\n")
    lines = [line for part in text.split("\n")[-height:] for line in _wrapped(part, width, pen, item.is_thinking)]
    return lines[-height:]


def _wrapped(text: str, width: int, pen: Pen, is_thinking: bool) -> list[Text]:
    line = Text(text, _THINKING if is_thinking else "")
    return [*line.wrap(pen.console, width)] if line.cell_len > width else [line]
