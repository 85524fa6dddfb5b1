"""One agent of a run on the screen: a panel with the last things it said and did, or a few lines where room is short.

Everything comes out as lines of exactly the width that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from toolyard.cli.drive import rows as drive_rows
from toolyard.cli.drive.format import format_duration, terminal_safe
from toolyard.cli.run import format as words
from toolyard.cli.run.state import AgentProgress, AgentStatus, ModelText, PanelItem, Remark, ShownCall

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND: Final = 8
_THINKING: Final = "dim italic"
_COLOURS: Final = {
    AgentStatus.READY: "bright_black",
    AgentStatus.WORKING: "cyan",
    AgentStatus.WAITING: "yellow",
    AgentStatus.ANSWERED: "green",
    AgentStatus.VOTED: "green",
    AgentStatus.FAILED: "red",
}
_MARKS: Final = {
    AgentStatus.READY: "○",
    AgentStatus.WAITING: "◌",
    AgentStatus.ANSWERED: "★",
    AgentStatus.VOTED: "✓",
    AgentStatus.FAILED: "✗",
}
_SIDES: Final = 4
"""Columns of a panel's frame."""
_NARROW: Final = 12
_STATE_WIDTH: Final = 12
"""Columns for the state of an agent that has one line."""
_MAX_HANGING: Final = 3
_MAX_WIDE: Final = 1.5
"""Characters of text that are laid out for each column of a line: those before would not be seen."""


@dataclass(frozen=True, slots=True)
class DrawContext:
    """What drawing needs to know beside what is drawn."""

    console: Console
    now: float

    @property
    def frame(self) -> str:
        return _FRAMES[int(self.now * _FRAMES_A_SECOND) % len(_FRAMES)]


def fit_width(line: Text, width: int) -> Text:
    """Exactly `width` columns of it."""
    line = line.copy()
    line.truncate(max(width, 0), overflow="ellipsis", pad=True)
    return line


def split_line(left: Text, right: Text, width: int) -> Text:
    """Two texts at the ends of a line. The left one gives way."""
    room = width - right.cell_len - 1
    if room < min(left.cell_len, _NARROW):
        return fit_width(left, width)
    return Text.assemble(fit_width(left, room), " ", right)


def render_panel(agent: AgentProgress, width: int, height: int, pen: DrawContext) -> list[Text]:
    """`height` lines: a frame in the colour of its state, who and what above, files and costs below."""
    inside = max(width - _SIDES, 1)
    colour = _COLOURS[agent.state]
    body = render_tail(agent, inside, max(height - 2, 0), pen)
    name, state, cost = _name_text(agent, pen), status_text(agent, pen), cost_text(agent)
    full = Text.assemble(name, (f"  {_model_name(agent)}", "dim"))
    top = _border_line(("╭", "╮"), full if _fits(full, state, width) else name, state, width, colour)
    told = changes_text(agent)
    bottom = _border_line(
        ("╰", "╯"), told if _fits(told, cost, width) else changes_text(agent, is_short=True), cost, width, colour
    )
    side = Text("│", colour)
    return [top, *(Text.assemble(side, " ", line, " ", side) for line in body), bottom][:height]


def render_rows(agent: AgentProgress, width: int, height: int, pen: DrawContext, names: int = 0) -> list[Text]:
    """`height` lines without a frame: who it is, what it does and, where there is room, the last that it said."""
    name = _name_text(agent, pen)
    left = Text.assemble(name, " " * max(names + 2 - name.cell_len, 0), "  ", status_text(agent, pen))
    if height > 1:
        left.append(f"  {_model_name(agent)}", "dim")
    else:
        # Where everybody's words begin, so that the eye finds them.
        left.pad_right(max(names + 4 + _STATE_WIDTH - left.cell_len, 0))
        left.append("  ").append_text(_last_line(agent, width, pen))
    first = split_line(left, cost_text(agent), width)
    return [first, *(Text.assemble("    ", line) for line in render_tail(agent, max(width - 4, 1), height - 1, pen))][
        :height
    ]


def render_tail(agent: AgentProgress, width: int, height: int, pen: DrawContext) -> list[Text]:
    """The last `height` lines of what an agent said and did, from the top where there are fewer."""
    found: list[Text] = []
    for item in reversed(agent.items):
        if len(found) >= height:
            break
        found[:0] = _item_lines(item, agent.info.workspace, width, height, pen)
    found = found[-height:] if height > 0 else []
    return [fit_width(line, width) for line in found] + [Text(" " * width)] * (height - len(found))


def status_text(agent: AgentProgress, pen: DrawContext) -> Text:
    colour = _COLOURS[agent.state]
    match agent.state:
        case AgentStatus.READY:
            return Text("not begun", colour)
        case AgentStatus.WORKING:
            return Text(_activity_text(agent, pen), colour)
        case AgentStatus.WAITING:
            left = agent.waits_until - pen.now
            return Text(f"waiting {left:.0f} s for the model" if left >= 1 else "trying again", colour)
        case AgentStatus.ANSWERED:
            return Text("answered", colour)
        case AgentStatus.VOTED:
            return Text(words.describe_vote(agent.info.id, agent.choice), colour)
        case AgentStatus.FAILED:
            return Text("failed", colour)


def cost_text(agent: AgentProgress) -> Text:
    told: list[str] = []
    if agent.usage.total:
        told.append(f"{words.format_tokens(agent.usage.total)} tok")
    if agent.usage.cost is not None:
        told.append(words.format_cost(agent.usage.cost))
    return Text(" · ".join(told), "dim")


def changes_text(agent: AgentProgress, *, is_short: bool = False) -> Text:
    told = Text()
    if count := agent.files_changed:
        told.append(f"± {count} file{'s' * (count != 1)}", "magenta")
    if agent.snapshot and not is_short:
        told.append(f"  {words.short_snapshot(agent.snapshot)}", "dim")
    return told


def _activity_text(agent: AgentProgress, pen: DrawContext) -> str:
    last_call = next(reversed(agent.calls.values()), None)
    if last_call is not None:
        took = format_duration(pen.now - last_call.began) if pen.now - last_call.began >= 1 else ""
        return f"{last_call.call.name} {took}".strip()
    last = agent.items[-1] if agent.items else None
    if isinstance(last, ModelText):
        return "thinking" if last.is_thinking else "writing"
    return "working"


def _last_line(agent: AgentProgress, width: int, pen: DrawContext) -> Text:
    for line in reversed(render_tail(agent, width, 3, pen)):
        if plain := line.plain.strip():
            return Text(plain, "dim")
    return Text()


def _name_text(agent: AgentProgress, pen: DrawContext) -> Text:
    mark = _MARKS.get(agent.state, pen.frame)
    return Text.assemble((mark, _COLOURS[agent.state]), " ", (words.short_name(agent.info.id), "bold"))


def _model_name(agent: AgentProgress) -> str:
    return words.short_name(agent.info.model or agent.info.backend)


def _fits(left: Text, right: Text, width: int) -> bool:
    return left.cell_len + right.cell_len + 3 <= width - _SIDES - 2


def _border_line(corners: tuple[str, str], left: Text, right: Text, width: int, colour: str) -> Text:
    """A border with a text at each end. What there is no room for is left out, the left text last."""
    first, last = corners
    room = width - _SIDES - 2
    if not _fits(left, right, width):
        spared = room - left.cell_len - 3
        right = fit_width(right, spared) if spared >= _NARROW else Text()
        left = fit_width(left, min(left.cell_len, max(room, 0)))
    line = Text.assemble((f"{first}─", colour))
    line = line.append(" ").append_text(left).append(" ") if left.plain.strip() else line
    closing = Text.assemble(" ", right, " ") if right.plain.strip() else Text()
    line.append("─" * (width - 2 - line.cell_len - closing.cell_len), colour)
    return fit_width(line.append_text(closing).append(f"─{last}", colour), width)


def _item_lines(item: PanelItem, workspace: str, width: int, height: int, pen: DrawContext) -> list[Text]:
    match item:
        case ModelText():
            return _model_text_lines(item, width, height, pen)
        case Remark():
            first = Text.assemble("  ", (item.mark, item.style or "dim"), " ")
            return _hanging_indent(first, Text(item.text, item.style), width, pen)
        case ShownCall() if item.summary is None:
            return [drive_rows.running_call_line(item.call, workspace, pen.now - item.began, pen.frame, width)]
        case ShownCall():
            return _finished_call_lines(item, workspace, width, pen)


def _finished_call_lines(item: ShownCall, workspace: str, width: int, pen: DrawContext) -> list[Text]:
    assert item.summary is not None  # noqa: S101 - the caller's case
    first, *more = drive_rows.finished_call_lines(item.call, workspace, item.summary, item.seconds, width)
    return [first, *(line for why in more for line in _hanging_indent(Text("    "), _strip_indent(why), width, pen))]


def _hanging_indent(first: Text, text: Text, width: int, pen: DrawContext) -> list[Text]:
    """A text that goes on below itself, and not without end."""
    room = max(width - first.cell_len, 1)
    found = [text] if text.cell_len <= room else [*text.wrap(pen.console, room)]
    if len(found) > _MAX_HANGING:
        found = [*found[: _MAX_HANGING - 1], fit_width(Text("").join(found[_MAX_HANGING - 1 :]), room)]
    indent = Text(" " * first.cell_len)
    return [Text.assemble(indent if number else first, line) for number, line in enumerate(found)]


def _strip_indent(line: Text) -> Text:
    return line[len(line.plain) - len(line.plain.lstrip(" ")) :]


def _model_text_lines(item: ModelText, width: int, height: int, pen: DrawContext) -> list[Text]:
    most = int(width * height * _MAX_WIDE) + width
    text = terminal_safe(item.text[-most:]).strip("\n")
    lines = [line for part in text.split("\n")[-height:] for line in _wrap_line(part, width, pen, item.is_thinking)]
    return lines[-height:]


def _wrap_line(text: str, width: int, pen: DrawContext, is_thinking: bool) -> list[Text]:
    line = Text(text, _THINKING if is_thinking else "")
    return [*line.wrap(pen.console, width)] if line.cell_len > width else [line]
