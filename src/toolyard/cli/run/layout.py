"""Lays out the full screen of a run: the task, the agents, notices, and a status line with the usage.

Panels are placed side by side on a wide screen and below each other on a narrow one; without room for panels each
agent gets a few lines. `render_screen` returns exactly `height` lines, each `width` columns wide.
"""

from __future__ import annotations

from typing import Final

from rich.text import Text

from toolyard.cli.drive.format import one_line
from toolyard.cli.run import format as run_format
from toolyard.cli.run.panels import DrawContext, fit_width, render_panel, render_rows, split_line
from toolyard.cli.run.state import AgentProgress, AgentStatus, TeamProgress

_MIN_WIDTH, _MIN_HEIGHT = 36, 6
"""Minimum size of a panel."""
_GOOD_WIDTH, _GOOD_HEIGHT = 50, 12
"""Comfortable size of a panel: more is not better."""
_MAX_ROWS: Final = 3
"""Lines of an agent without a panel."""
_LONGEST_NAME: Final = 20
_SHOWN_NOTICES: Final = 2
_CLOSE, _VERY_CLOSE = 0.8, 0.95
"""Fractions of a limit from which the value is coloured."""
_HINT: Final = "Ctrl-C stops and keeps the work"
_SHORT_HINT: Final = "Ctrl-C stops"
_STOPPING: Final = "stopping; Ctrl-C again stops immediately"
_URGENCY: Final = {
    AgentStatus.WORKING: 0,
    AgentStatus.WAITING: 1,
    AgentStatus.FAILED: 2,
    AgentStatus.ANSWERED: 3,
    AgentStatus.VOTED: 4,
    AgentStatus.READY: 5,
}


def render_screen(team: TeamProgress, width: int, height: int, pen: DrawContext) -> list[Text]:
    """Returns the lines of the screen."""
    head, foot = [_heading_line(team, width)], [*_notice_lines(team, width, height), _status_line(team, width, pen)]
    room = height - len(head) - len(foot)
    if room < 1:
        return [fit_width(line, width) for line in (*head, *foot)][-height:]
    agents = [*team.agents.values()]
    columns = best_columns(len(agents), width, room)
    body = _panel_grid(agents, columns, width, room, pen) if columns else _agent_list(agents, width, room, pen)
    body += [Text(" " * width)] * (room - len(body))
    return [fit_width(line, width) for line in (*head, *body[:room], *foot)]


def best_columns(agents: int, width: int, height: int) -> int:
    """Returns how many panels fit side by side; 0 if there is no room for panels."""
    best, found = 0.0, 0
    for columns in range(1, agents + 1):
        wide, high = width // columns, height // -(-agents // columns)
        if wide < _MIN_WIDTH or high < _MIN_HEIGHT:
            continue
        score = min(wide, _GOOD_WIDTH) / _GOOD_WIDTH * min(high, _GOOD_HEIGHT) / _GOOD_HEIGHT
        if score >= best:
            best, found = score, columns
    return found


def _panel_grid(agents: list[AgentProgress], columns: int, width: int, height: int, pen: DrawContext) -> list[Text]:
    lines: list[Text] = []
    count = -(-len(agents) // columns)
    for row in range(count):
        across = agents[row * columns : (row + 1) * columns]
        high = _share(height, count, row)
        panels = [
            render_panel(one, _share(width, len(across), column), high, pen) for column, one in enumerate(across)
        ]
        lines += [Text.assemble(*parts) for parts in zip(*panels, strict=True)]
    return lines


def _agent_list(agents: list[AgentProgress], width: int, height: int, pen: DrawContext) -> list[Text]:
    """Returns a few lines per agent, working agents first if not all fit."""
    names = min(max((len(run_format.short_name(agent.info.id)) for agent in agents), default=0), _LONGEST_NAME)
    if len(agents) <= height:
        each = min(height // max(len(agents), 1), _MAX_ROWS)
        return [line for agent in agents for line in render_rows(agent, width, each, pen, names)]
    urgent = sorted(agents, key=lambda agent: _URGENCY[agent.state])[: height - 1]
    shown = [agent for agent in agents if any(agent is one for one in urgent)]
    left = [agent for agent in agents if not any(agent is one for one in urgent)]
    lines = [line for agent in shown for line in render_rows(agent, width, 1, pen, names)]
    at_work = sum(agent.state in (AgentStatus.WORKING, AgentStatus.WAITING) for agent in left)
    return [*lines, Text(f"… and {len(left)} more agents, {at_work} of them working", "dim")]


def _share(whole: int, parts: int, which: int) -> int:
    return whole // parts + (which < whole % parts)


def _heading_line(team: TeamProgress, width: int) -> Text:
    again = " (resumed)" if team.is_resumed else ""
    return fit_width(
        Text.assemble(("toolyard ", "bold"), (f"run {one_line(team.run)}{again}  ", "dim"), one_line(team.task)),
        width,
    )


def _notice_lines(team: TeamProgress, width: int, height: int) -> list[Text]:
    if height < _MIN_HEIGHT + _SHOWN_NOTICES:
        return []
    recent = [*team.notices][-_SHOWN_NOTICES:]
    return [fit_width(Text.assemble(("! ", "yellow"), (one_line(text), "yellow")), width) for text in recent]


def _status_line(team: TeamProgress, width: int, pen: DrawContext) -> Text:
    used, limits = team.usage, team.limits
    rounds, elapsed = int(limits.get("rounds", 0)), max(pen.now - team.began, 0.0)
    parts = [Text(f"round {team.round}" + (f"/{rounds}" if rounds else ""))]
    parts.append(_usage_text(elapsed, limits.get("seconds"), run_format.format_clock))
    parts.append(_usage_text(used.total, limits.get("tokens"), lambda n: run_format.format_tokens(int(n)), " tokens"))
    if used.cost is not None or limits.get("cost"):
        parts.append(_usage_text(used.cost or 0.0, limits.get("cost"), run_format.format_cost))
    at_work = sum(agent.state in (AgentStatus.WORKING, AgentStatus.WAITING) for agent in team.agents.values())
    parts.append(Text(f"{at_work}/{len(team.agents)} working", "dim"))
    if team.is_stopping:
        hint, text = Text(_STOPPING, "bold yellow"), _join_with_dots(parts)
        return split_line(hint, text if hint.cell_len + text.cell_len + 2 <= width else Text(), width)
    # With little room, usage takes precedence over the number of working agents and over the limits.
    brief = [Text(part.plain.partition("/")[0]) for part in parts[:-1]]
    for shown, hint in ((parts, _HINT), (parts, _SHORT_HINT), (parts[:-1], _SHORT_HINT), (brief, _SHORT_HINT)):
        text = _join_with_dots(shown)
        if text.cell_len + len(hint) + 1 <= width:
            return split_line(text, Text(hint, "dim"), width)
    return fit_width(_join_with_dots(brief), width)


def _join_with_dots(parts: list[Text]) -> Text:
    line = Text()
    for number, part in enumerate(parts):
        line.append(" · " if number else "", "dim").append_text(part)
    return line


def _usage_text(value: float, limit: float | None, say: run_format.NumberFormatter, unit: str = "") -> Text:
    if not limit:
        return Text(f"{say(value)}{unit}")
    share = value / limit
    style = "bold red" if share >= _VERY_CLOSE else "yellow" if share >= _CLOSE else ""
    return Text.assemble((say(value), style), (f"/{say(limit)}{unit}", "dim"))
