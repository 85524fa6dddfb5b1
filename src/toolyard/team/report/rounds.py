"""What each agent said and did, round by round: what was said is open, what was called unfolds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolyard.team.report import format as report_format
from toolyard.team.report.tags import Html, formatted, pre, tag, together
from toolyard.team.report.timeline_model import Changed, Made, Noted, Part, Said, Step, Story

_SHOWN_PATHS: Final = 40
_ABOUT: Final = ("command", "pattern", "file_path", "path", "query", "code", "url")
"""Arguments that say what a call is about, the most telling first."""
_LONGEST_ABOUT: Final = 90


def shown_rounds(story: Story) -> Html:
    parts: list[Html] = []
    for number, by_agent in story.rounds.items():
        parts.append(tag("h3", f"Round {number}" if number else "Before the first round"))
        parts += [_part(story, part) for part in by_agent.values()]
    return together(parts)


def _part(story: Story, part: Part) -> Html:
    calls = sum(isinstance(step, Made) for step in part.steps)
    took = report_format.duration(max(part.ended - part.began, 0))
    about = [_ended(part), report_format.counted(calls, "call") if calls else "", took]
    head = tag(
        "summary",
        report_format.one_line(part.agent),
        tag("span", " · ".join(filter(None, about)), class_="dim"),
    )
    workspace = story.agents[part.agent].workspace
    body = [html for step in part.steps for html in _step(story, step, workspace)]
    if part.left_out:
        body.append(tag("p", f"… and {report_format.counted(part.left_out, 'more step')}", class_="dim"))
    return tag("details", head, *body, *_outcome(part), class_="part", open="open")


def _ended(part: Part) -> str:
    if part.failure:
        return "failed"
    if part.vote:
        return f"voted for {report_format.one_line(part.vote.choice) or 'nobody'}"
    return "answered" if part.answer else ""


def _outcome(part: Part) -> Iterator[Html]:
    if part.answer is not None and not part.has_said_answer:
        yield tag("p", "Answer", class_="label")
        yield formatted(part.answer.text)
    if part.vote is not None:
        chosen = report_format.one_line(part.vote.choice) or "nobody"
        yield tag(
            "div", tag("b", f"Voted for {chosen}"), f": {part.vote.why}" if part.vote.why else "", class_="step right"
        )
    if part.failure is not None:
        yield tag("div", tag("b", "Failed"), f": {part.failure.why} {part.failure.hint}", class_="step wrong bad")


def _step(story: Story, step: Step, workspace: str) -> Iterator[Html]:
    match step:
        case Said() if not step.text.strip():
            pass
        case Said() if step.is_thinking:
            summary = tag("summary", report_format.one_line(step.text, 120))
            yield tag("details", summary, pre(step.text), class_="step thought")
        case Said():
            yield tag("div", formatted(step.text), class_="step")
        case Made():
            yield _made(story, step, workspace)
        case Changed():
            named = [tag("code", report_format.one_line(path)) for path in step.paths[:_SHOWN_PATHS]]
            left = step.total - len(named)
            more = [f"and {left:,} more"] if left > 0 else []
            listed = together(part for each in (*named, *more) for part in (each, " "))
            snapshot = tag("span", f"snapshot {report_format.snapshot(step.snapshot)}", class_="dim")
            yield tag("div", "Changed ", listed, snapshot, class_="step files")
        case Noted():
            yield tag("div", step.text, class_="step note")


def _made(story: Story, step: Made, workspace: str) -> Html:
    mark, kind = {True: ("✓", "right"), False: ("✗", "wrong"), None: ("…", "")}[step.ok]
    colour = {True: "good", False: "bad", None: "warn"}[step.ok]
    took = f"{report_format.duration(step.seconds)} · " if step.seconds else ""
    head = tag(
        "summary",
        tag("span", mark, class_=colour),
        " ",
        tag("code", report_format.one_line(step.tool)),
        f" {_about(step, workspace)} ",
        tag("span", f"{took}{report_format.offset(story, step.at)}", class_="dim"),
    )
    result = together([tag("p", "Result", class_="label"), pre(step.text)]) if step.text else Html()
    none = tag("p", "It has no result.", class_="label") if step.ok is None else Html()
    arguments = together([tag("p", "Arguments", class_="label"), pre(report_format.arguments(step))])
    return tag("details", head, arguments, result, none, class_=f"step {kind}".strip())


def _about(step: Made, workspace: str) -> str:
    """The file as seen from the workspace, the pattern, the command."""
    strings = {name: value for name, value in step.arguments.items() if isinstance(value, str)}
    key = next((name for name in _ABOUT if strings.get(name)), "")
    told = strings[key] if key else next(iter(strings.values()), "")
    near = told.removeprefix(f"{workspace.rstrip('/')}/") if workspace else told
    return report_format.one_line(near, _LONGEST_ABOUT)
