"""Renders one agent of a run: a panel with its last texts and calls, or a few lines if there is little room.

All lines have exactly the requested width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from toolyard.cli.drive import rows as drive_rows
from toolyard.cli.drive.format import format_duration, terminal_safe
from toolyard.cli.run import format as run_format
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
"""Columns for the status of an agent with one line."""
_MAX_HANGING: Final = 3
_MAX_WIDE: Final = 1.5
"""Characters that are laid out per column of a line; earlier text would not be visible."""


@dataclass(frozen=True, slots=True)
class DrawContext:
    """The console and the current time."""

    console: Console
    now: float

    @property
    def frame(self) -> str:
        """The current frame of the spinner."""
        return _FRAMES[int(self.now * _FRAMES_A_SECOND) % len(_FRAMES)]


def fit_width(line: Text, width: int) -> Text:
    """Returns the line truncated or padded to `width` columns."""
    line = line.copy()
    line.truncate(max(width, 0), overflow="ellipsis", pad=True)
    return line


def split_line(left: Text, right: Text, width: int) -> Text:
    """Puts two texts at the ends of a line; the left one is truncated if needed."""
    room = width - right.cell_len - 1
    if room < min(left.cell_len, _NARROW):
        return fit_width(left, width)
    return Text.assemble(fit_width(left, room), " ", right)


def render_panel(agent: AgentProgress, width: int, height: int, pen: DrawContext) -> list[Text]:
    """Returns `height` lines: a frame in the status colour, name and status above, files and costs below."""
    inside = max(width - _SIDES, 1)
    colour = _COLOURS[agent.state]
    body = render_tail(agent, inside, max(height - 2, 0), pen)
    name, state, cost = _name_text(agent, pen), status_text(agent, pen), cost_text(agent)
    full = Text.assemble(name, (f"  {_model_name(agent)}", "dim"))
    top = _border_line(("╭", "╮"), full if _fits(full, state, width) else name, state, width, colour)
    files = changes_text(agent)
    bottom = _border_line(
        ("╰", "╯"), files if _fits(files, cost, width) else changes_text(agent, is_short=True), cost, width, colour
    )
    side = Text("│", colour)
    return [top, *(Text.assemble(side, " ", line, " ", side) for line in body), bottom][:height]


def render_rows(agent: AgentProgress, width: int, height: int, pen: DrawContext, names: int = 0) -> list[Text]:
    """Returns `height` lines without a frame: name, status and, if there is room, the last text."""
    name = _name_text(agent, pen)
    left = Text.assemble(name, " " * max(names + 2 - name.cell_len, 0), "  ", status_text(agent, pen))
    if height > 1:
        left.append(f"  {_model_name(agent)}", "dim")
    else:
        # Aligns the texts of all agents in one column.
        left.pad_right(max(names + 4 + _STATE_WIDTH - left.cell_len, 0))
        left.append("  ").append_text(_last_line(agent, width, pen))
    first = split_line(left, cost_text(agent), width)
    return [first, *(Text.assemble("    ", line) for line in render_tail(agent, max(width - 4, 1), height - 1, pen))][
        :height
    ]


def render_tail(agent: AgentProgress, width: int, height: int, pen: DrawContext) -> list[Text]:
    """Returns the last `height` lines of an agent's texts and calls."""
    found: list[Text] = []
    for item in reversed(agent.items):
        if len(found) >= height:
            break
        found[:0] = _item_lines(item, agent.info.workspace, width, height, pen)
    found = found[-height:] if height > 0 else []
    return [fit_width(line, width) for line in found] + [Text(" " * width)] * (height - len(found))


def status_text(agent: AgentProgress, pen: DrawContext) -> Text:
    """Returns what an agent is doing."""
    colour = _COLOURS[agent.state]
    match agent.state:
        case AgentStatus.READY:
            return Text("not started", colour)
        case AgentStatus.WORKING:
            return Text(_activity_text(agent, pen), colour)
        case AgentStatus.WAITING:
            left = agent.waits_until - pen.now
            return Text(f"waiting {left:.0f} s for the model" if left >= 1 else "trying again", colour)
        case AgentStatus.ANSWERED:
            return Text("answered", colour)
        case AgentStatus.VOTED:
            return Text(run_format.describe_vote(agent.info.id, agent.choice), colour)
        case AgentStatus.FAILED:
            return Text("failed", colour)


def cost_text(agent: AgentProgress) -> Text:
    """Returns tokens and cost of an agent."""
    parts: list[str] = []
    if agent.usage.total:
        parts.append(f"{run_format.format_tokens(agent.usage.total)} tok")
    if agent.usage.cost is not None:
        parts.append(run_format.format_cost(agent.usage.cost))
    return Text(" · ".join(parts), "dim")


def changes_text(agent: AgentProgress, *, is_short: bool = False) -> Text:
    """Returns the changed files and the snapshot of an agent."""
    text = Text()
    if count := agent.files_changed:
        text.append(f"± {count} file{'s' * (count != 1)}", "magenta")
    if agent.snapshot and not is_short:
        text.append(f"  {run_format.short_snapshot(agent.snapshot)}", "dim")
    return text


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
    return Text.assemble((mark, _COLOURS[agent.state]), " ", (run_format.short_name(agent.info.id), "bold"))


def _model_name(agent: AgentProgress) -> str:
    return run_format.short_name(agent.info.model or agent.info.backend)


def _fits(left: Text, right: Text, width: int) -> bool:
    return left.cell_len + right.cell_len + 3 <= width - _SIDES - 2


def _border_line(corners: tuple[str, str], left: Text, right: Text, width: int, colour: str) -> Text:
    """Returns a border with a text at each end; if there is no room, the right text is dropped first."""
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
    """Wraps a text with a hanging indent, up to a maximum number of lines."""
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
