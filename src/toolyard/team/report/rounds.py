"""Renders what each agent did, round by round: texts are unfolded, calls are folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolyard.team.report import format as report_format
from toolyard.team.report.tags import Html, join_html, markdown_html, pre, tag
from toolyard.team.report.timeline_model import (
    AgentRound,
    CallStep,
    ChangeStep,
    NoteStep,
    RunTimeline,
    Step,
    TextStep,
)

_SHOWN_PATHS: Final = 40
_SUMMARY_ARGUMENTS: Final = ("command", "pattern", "file_path", "path", "query", "code", "url")
"""Arguments that summarize a call, the best first."""
_MAX_SUMMARY_CHARS: Final = 90


def render_rounds(timeline: RunTimeline) -> Html:
    """Returns the HTML of all rounds."""
    parts: list[Html] = []
    for number, by_agent in timeline.rounds.items():
        parts.append(tag("h3", f"Round {number}" if number else "Before the first round"))
        parts += [_render_part(timeline, part) for part in by_agent.values()]
    return join_html(parts)


def _render_part(timeline: RunTimeline, part: AgentRound) -> Html:
    calls = sum(isinstance(step, CallStep) for step in part.steps)
    took = report_format.duration(max(part.ended - part.began, 0))
    about = [_end_label(part), report_format.pluralize(calls, "call") if calls else "", took]
    head = tag(
        "summary",
        report_format.one_line(part.agent),
        tag("span", " · ".join(filter(None, about)), class_="dim"),
    )
    workspace = timeline.agents[part.agent].workspace
    body = [html for step in part.steps for html in _render_step(timeline, step, workspace)]
    if part.left_out:
        body.append(tag("p", f"… and {report_format.pluralize(part.left_out, 'more step')}", class_="dim"))
    return tag("details", head, *body, *_render_outcome(part), class_="part", open="open")


def _end_label(part: AgentRound) -> str:
    if part.failure:
        return "failed"
    if part.vote:
        return f"voted for {report_format.one_line(part.vote.choice) or 'no one'}"
    return "answered" if part.answer else ""


def _render_outcome(part: AgentRound) -> Iterator[Html]:
    if part.answer is not None and not part.ends_with_answer:
        yield tag("p", "Answer", class_="label")
        yield markdown_html(part.answer.text)
    if part.vote is not None:
        chosen = report_format.one_line(part.vote.choice) or "no one"
        yield tag(
            "div", tag("b", f"Voted for {chosen}"), f": {part.vote.why}" if part.vote.why else "", class_="step right"
        )
    if part.failure is not None:
        yield tag("div", tag("b", "Failed"), f": {part.failure.why} {part.failure.hint}", class_="step wrong bad")


def _render_step(timeline: RunTimeline, step: Step, workspace: str) -> Iterator[Html]:
    match step:
        case TextStep() if not step.text.strip():
            pass
        case TextStep() if step.is_thinking:
            summary = tag("summary", report_format.one_line(step.text, 120))
            yield tag("details", summary, pre(step.text), class_="step thought")
        case TextStep():
            yield tag("div", markdown_html(step.text), class_="step")
        case CallStep():
            yield _render_call(timeline, step, workspace)
        case ChangeStep():
            named = [tag("code", report_format.one_line(path)) for path in step.paths[:_SHOWN_PATHS]]
            left = step.total - len(named)
            more = [f"and {left:,} more"] if left > 0 else []
            paths_html = join_html(part for each in (*named, *more) for part in (each, " "))
            snapshot = tag("span", f"snapshot {report_format.short_snapshot(step.snapshot)}", class_="dim")
            yield tag("div", "Changed ", paths_html, snapshot, class_="step files")
        case NoteStep():
            yield tag("div", step.text, class_="step note")


def _render_call(timeline: RunTimeline, step: CallStep, workspace: str) -> Html:
    mark, kind = {True: ("✓", "right"), False: ("✗", "wrong"), None: ("…", "")}[step.ok]
    colour = {True: "good", False: "bad", None: "warn"}[step.ok]
    took = f"{report_format.duration(step.seconds)} · " if step.seconds else ""
    head = tag(
        "summary",
        tag("span", mark, class_=colour),
        " ",
        tag("code", report_format.one_line(step.tool)),
        f" {_call_summary(step, workspace)} ",
        tag("span", f"{took}{report_format.offset(timeline, step.at)}", class_="dim"),
    )
    result = join_html([tag("p", "Result", class_="label"), pre(step.text)]) if step.text else Html()
    none = tag("p", "It has no result.", class_="label") if step.ok is None else Html()
    arguments = join_html([tag("p", "Arguments", class_="label"), pre(report_format.arguments_json(step))])
    return tag("details", head, arguments, result, none, class_=f"step {kind}".strip())


def _call_summary(step: CallStep, workspace: str) -> str:
    """Returns the argument that summarizes a call; a path is relative to the workspace."""
    strings = {name: value for name, value in step.arguments.items() if isinstance(value, str)}
    key = next((name for name in _SUMMARY_ARGUMENTS if strings.get(name)), "")
    text = strings[key] if key else next(iter(strings.values()), "")
    near = text.removeprefix(f"{workspace.rstrip('/')}/") if workspace else text
    return report_format.one_line(near, _MAX_SUMMARY_CHARS)
