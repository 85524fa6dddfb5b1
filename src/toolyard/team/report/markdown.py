"""Renders the report as Markdown. Text of models and tools is in fences that it cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from toolyard.team.report import format as report_format
from toolyard.team.report.timeline_model import (
    AgentRound,
    CallStep,
    ChangeStep,
    NoteStep,
    RunTimeline,
    Step,
    TextStep,
    truncate,
)

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#|~&!$^])")
_ADDRESS: Final = re.compile(r"://|www\.|@", re.IGNORECASE)
_LIST_MARK: Final = re.compile(r"^(\d*)([-+=.)])")
_BAR: Final = "\u2502"
"""Replaces `|` in code, where it would split a table cell and an escape would be visible."""
_TICKS: Final = re.compile(r"`+")
_MAX_RESULT: Final = 4_000
_MAX_DIFF: Final = 200_000
_SHOWN_PATHS: Final = 20


def render_markdown(timeline: RunTimeline, diffs: Mapping[str, str]) -> str:
    """Returns the Markdown report. `diffs` holds the diff of each agent."""
    blocks = (
        *_header_section(timeline),
        *_answer(timeline),
        *_agents(timeline),
        *_votes(timeline),
        *_rounds(timeline),
        *_files(timeline, diffs),
        *_time_line(timeline),
    )
    return "\n\n".join(blocks) + "\n"


def plain_text(text: str, longest: int = 200) -> str:
    """Returns a text as one line of plain text: no markup, link, mention or table cell."""
    line = " ".join(map(_plain_word, report_format.one_line(text, longest).split(" ")))
    return _LIST_MARK.sub(r"\1\\\2", line)


def _plain_word(word: str) -> str:
    """Turns what renderers detect as an address into code, because some link it even if it is escaped."""
    if _ADDRESS.search(word) is None:
        return _SPECIAL.sub(r"\\\1", word)
    ticks = "`" * (max((len(found) for found in _TICKS.findall(word)), default=0) + 1)
    edge = " " if "`" in (word[0], word[-1]) else ""
    return f"{ticks}{edge}{word.replace('|', _BAR)}{edge}{ticks}"


def code_block(text: str, kind: str = "") -> str:
    """Returns the text in a code block with a fence longer than any inside."""
    shown = report_format.visible(text).strip("\n")
    longest = max((len(ticks) for ticks in _TICKS.findall(shown)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{kind}\n{shown}\n{fence}"


def _header_section(timeline: RunTimeline) -> Iterator[str]:
    word, why = report_format.end_labels(timeline)
    yield f"# Run {plain_text(timeline.run)}"
    yield code_block(timeline.task)
    yield f"**{word}.** {plain_text(why, 1000)}"
    spent, resumed = (
        timeline.total_spent,
        f", resumed {report_format.pluralize(timeline.resumed, 'time')}" if timeline.resumed else "",
    )
    rows = [
        ("Begun", f"{report_format.moment(timeline.began)}{resumed}"),
        ("Time", report_format.duration(timeline.seconds)),
        ("Rounds", str(timeline.finished.rounds if timeline.finished else len(timeline.rounds))),
        ("Tokens", f"{spent.input:,} in ({spent.cached:,} cached), {spent.output:,} out"),
        ("Cost", report_format.money(spent.cost).replace("$", "\\$")),
        (
            "Limits",
            plain_text(", ".join(report_format.format_limit(*each) for each in timeline.limits.items())) or "none",
        ),
    ]
    yield _table(("", ""), rows)
    if timeline.notices:
        yield "\n".join(f"- {plain_text(notice.text, 1000)}" for notice in timeline.notices)


def _answer(timeline: RunTimeline) -> Iterator[str]:
    finished = timeline.finished
    if finished is not None and finished.has_answer:
        snapshot = (
            f" (snapshot {plain_text(report_format.short_snapshot(finished.snapshot))})" if finished.snapshot else ""
        )
        yield f"## The answer: {plain_text(finished.winner)}{snapshot}"
        yield code_block(finished.text, "markdown")


def _agents(timeline: RunTimeline) -> Iterator[str]:
    yield "## Agents"
    rows: list[tuple[str, ...]] = []
    for name, info in timeline.agents.items():
        used = timeline.used.get(name)
        tokens = f"{used.spent.input:,} / {used.spent.output:,}" if used else "0 / 0"
        cost = report_format.money(used.spent.cost if used else 0.0).replace("$", "\\$")
        calls, files = len(timeline.calls_of(name)), len(timeline.files_of(name))
        who = plain_text(" · ".join(filter(None, (info.backend, info.model))))
        came = plain_text(report_format.agent_outcome(timeline, name))
        rows.append((plain_text(name), who, came, str(calls), str(files), tokens, cost))
    yield _table(("Agent", "Model", "Result", "Calls", "Files", "Tokens in / out", "Cost"), rows)


def _votes(timeline: RunTimeline) -> Iterator[str]:
    votes = [part for parts in timeline.rounds.values() for part in parts.values() if part.vote]
    if votes:
        yield "## Votes"
        rows = [
            (
                str(part.round),
                plain_text(part.agent),
                plain_text(part.vote.choice) or "no one",
                plain_text(part.vote.why, 1000),
            )
            for part in votes
            if part.vote
        ]
        yield _table(("Round", "Agent", "Voted for", "Why"), rows)


def _rounds(timeline: RunTimeline) -> Iterator[str]:
    yield "## What happened"
    for number, parts in timeline.rounds.items():
        yield f"### Round {number}" if number else "### Before the first round"
        for part in parts.values():
            yield f"#### {plain_text(part.agent)}"
            yield from _render_part(part)


def _render_part(part: AgentRound) -> Iterator[str]:
    for step in part.steps:
        yield from _render_step(step)
    if part.left_out:
        yield f"… and {report_format.pluralize(part.left_out, 'more step')}."
    if part.answer is not None and part.ends_with_answer:
        yield "That is its answer."
    elif part.answer is not None:
        yield "Its answer:"
        yield code_block(part.answer.text, "markdown")
    if part.vote is not None:
        yield f"It voted for {plain_text(part.vote.choice) or 'no one'}: {plain_text(part.vote.why, 1000)}"
    if part.failure is not None:
        yield f"It failed: {plain_text(part.failure.why, 1000)} {plain_text(part.failure.hint, 1000)}".rstrip()


def _render_step(step: Step) -> Iterator[str]:
    match step:
        case TextStep():
            if step.text.strip():
                yield "Thought:" if step.is_thinking else "Said:"
                yield code_block(step.text)
        case CallStep():
            came = {True: "✓", False: "✗", None: "no result:"}[step.ok]
            took = f" ({report_format.duration(step.seconds)})" if step.seconds else ""
            yield f"{came} **{plain_text(step.tool)}**{took}"
            yield code_block(truncate(report_format.arguments_json(step), _MAX_RESULT), "json")
            if step.text:
                yield code_block(truncate(step.text, _MAX_RESULT))
        case ChangeStep():
            named = ", ".join(plain_text(path) for path in step.paths[:_SHOWN_PATHS])
            more = f" and {step.total - _SHOWN_PATHS:,} more" if step.total > _SHOWN_PATHS else ""
            yield f"Changed {named}{more} (snapshot {plain_text(report_format.short_snapshot(step.snapshot))})."
        case NoteStep():
            yield f"Note: {plain_text(step.text, 1000)}"


def _files(timeline: RunTimeline, diffs: Mapping[str, str]) -> Iterator[str]:
    agents = [name for name in timeline.agents if diffs.get(name) or timeline.files_of(name)]
    if agents:
        yield "## Files"
    for name in agents:
        yield f"### {plain_text(name)}"
        if diffs.get(name):
            yield code_block(truncate(diffs[name], _MAX_DIFF), "diff")
        else:
            yield "\n".join(f"- {plain_text(path)}" for path in timeline.files_of(name))


def _time_line(timeline: RunTimeline) -> Iterator[str]:
    rows: list[tuple[float, str, str]] = []
    for parts in timeline.rounds.values():
        for part in parts.values():
            rows.append((part.began, part.agent, f"began round {part.round}"))
            rows += [(step.at, part.agent, step.text) for step in part.steps if isinstance(step, NoteStep)]
            if part.answer is not None:
                rows.append((part.answer.at, part.agent, "answered"))
            if part.vote is not None:
                rows.append((part.vote.at, part.agent, f"voted for {part.vote.choice or 'no one'}"))
            if part.failure is not None:
                rows.append((part.failure.at, part.agent, f"failed: {part.failure.why}"))
    if rows:
        yield "## Time line"
        cells = [
            (report_format.offset(timeline, at), plain_text(agent), plain_text(what))
            for at, agent, what in sorted(rows)
        ]
        yield _table(("At", "Agent", "What"), cells)


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = [*titles]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)
