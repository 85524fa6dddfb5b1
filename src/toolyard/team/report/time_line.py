"""Draws the time line of a run as SVG: a lane for each agent, rounds as bars, calls as ticks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolyard.team.report import format as report_format
from toolyard.team.report.tags import Html, tag
from toolyard.team.report.timeline_model import AgentRound, CallStep, NoteStep, RunTimeline

_WIDTH, _LEFT, _RIGHT = 1000, 130, 26
_LANE, _BAR, _TOP = 34, 18, 26
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400)
_MAX_MARKS: Final = 8
_MAX_TICKS: Final = 400
"""Per bar; more ticks would overlap."""
_LEAST_WIDTH: Final = 3.0
_NAME_CHARS: Final = 14


def time_line(timeline: RunTimeline) -> Html:
    height = _TOP + _LANE * len(timeline.agents) + 6
    drawn = [*_axis(timeline, height)]
    for lane, agent in enumerate(timeline.agents):
        top = _TOP + lane * _LANE + (_LANE - _BAR) / 2
        drawn.append(
            tag("text", report_format.one_line(agent, _NAME_CHARS), x=_LEFT - 10, y=top + _BAR - 4, class_="lane")
        )
        for part in timeline.agent_rounds(agent):
            drawn += _bar(timeline, part, top)
    return tag("svg", *drawn, viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label="Time line", class_="line")


def _x_position(timeline: RunTimeline, at: float) -> float:
    whole = max(timeline.ended - timeline.began, 0.001)
    share = min(max((at - timeline.began) / whole, 0.0), 1.0)
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def _axis(timeline: RunTimeline, height: int) -> Iterator[Html]:
    whole = max(timeline.ended - timeline.began, 0.001)
    step = next((each for each in _STEPS if whole / each <= _MAX_MARKS), _STEPS[-1] * max(int(whole / 604_800), 1))
    for number in range(int(whole // step) + 1):
        at = timeline.began + number * step
        x = _x_position(timeline, at)
        yield tag("line", x1=x, y1=_TOP - 6, x2=x, y2=height, class_="grid")
        yield tag("text", report_format.offset(timeline, at), x=x, y=_TOP - 11, class_="mark")


def _bar(timeline: RunTimeline, part: AgentRound, top: float) -> Iterator[Html]:
    begin, end = _x_position(timeline, part.began), _x_position(timeline, part.ended)
    wide = max(end - begin, _LEAST_WIDTH)
    took = report_format.duration(max(part.ended - part.began, 0))
    title = tag("title", f"{report_format.one_line(part.agent)}, round {part.round}: {took}")
    state = "failed" if part.failure else "odd" if part.round % 2 else "even"
    yield tag("g", title, tag("rect", x=begin, y=top, width=wide, height=_BAR, rx=4, class_=f"bar {state}"))
    shown = [step for step in part.steps if isinstance(step, CallStep | NoteStep)]
    for step in shown[:: -(-len(shown) // _MAX_TICKS) or 1]:
        x = _x_position(timeline, step.at)
        if isinstance(step, CallStep):
            name = tag("title", f"{report_format.offset(timeline, step.at)} {report_format.one_line(step.tool)}")
            kind = "tick wrong" if step.ok is False else "tick"
            yield tag("g", name, tag("rect", x=x - 0.75, y=top + 4, width=1.5, height=_BAR - 8, class_=kind))
        elif step.seconds:
            until = _x_position(timeline, min(step.at + step.seconds, part.ended))
            wait = tag("rect", x=x, y=top + _BAR - 4, width=max(until - x, _LEAST_WIDTH), height=4, class_="wait")
            yield tag("g", tag("title", report_format.one_line(step.text)), wait)
    if part.answer is not None:
        name = tag("title", f"{report_format.offset(timeline, part.answer.at)} answered")
        yield tag(
            "g",
            name,
            tag("circle", cx=_x_position(timeline, part.answer.at), cy=top + _BAR / 2, r=5, class_="answer"),
        )
    if part.vote is not None:
        name = tag(
            "title",
            f"{report_format.offset(timeline, part.vote.at)} voted for "
            f"{report_format.one_line(part.vote.choice) or 'no one'}",
        )
        yield tag(
            "g", name, tag("circle", cx=_x_position(timeline, part.vote.at), cy=top + _BAR / 2, r=5, class_="vote")
        )
