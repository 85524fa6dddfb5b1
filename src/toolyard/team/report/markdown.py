"""The report as Markdown. What a model or a tool wrote stands between fences that it cannot close."""

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
"""Stands for `|` in code, where a table would be cut and an escape would show."""
_TICKS: Final = re.compile(r"`+")
_MAX_RESULT: Final = 4_000
_MAX_DIFF: Final = 200_000
_SHOWN_PATHS: Final = 20


def render_markdown(story: RunTimeline, diffs: Mapping[str, str]) -> str:
    blocks = (
        *_header_section(story),
        *_answer(story),
        *_agents(story),
        *_votes(story),
        *_rounds(story),
        *_files(story, diffs),
        *_time_line(story),
    )
    return "\n\n".join(blocks) + "\n"


def plain_text(text: str, longest: int = 200) -> str:
    """A text in a line, as text: nothing in it is a mark, a link, a mention or a cell."""
    line = " ".join(map(_plain_word, report_format.one_line(text, longest).split(" ")))
    return _LIST_MARK.sub(r"\1\\\2", line)


def _plain_word(word: str) -> str:
    """What renderers take for an address becomes code: an escape does not keep all of them from linking it."""
    if _ADDRESS.search(word) is None:
        return _SPECIAL.sub(r"\\\1", word)
    ticks = "`" * (max((len(found) for found in _TICKS.findall(word)), default=0) + 1)
    edge = " " if "`" in (word[0], word[-1]) else ""
    return f"{ticks}{edge}{word.replace('|', _BAR)}{edge}{ticks}"


def code_block(text: str, kind: str = "") -> str:
    """A text as it is, between fences longer than any in it."""
    shown = report_format.visible(text).strip("\n")
    longest = max((len(ticks) for ticks in _TICKS.findall(shown)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{kind}\n{shown}\n{fence}"


def _header_section(story: RunTimeline) -> Iterator[str]:
    word, why = report_format.end_labels(story)
    yield f"# Run {plain_text(story.run)}"
    yield code_block(story.task)
    yield f"**{word}.** {plain_text(why, 1000)}"
    spent, resumed = (
        story.total_spent,
        f", resumed {report_format.pluralize(story.resumed, 'time')}" if story.resumed else "",
    )
    rows = [
        ("Begun", f"{report_format.moment(story.began)}{resumed}"),
        ("Time", report_format.duration(story.seconds)),
        ("Rounds", str(story.finished.rounds if story.finished else len(story.rounds))),
        ("Tokens", f"{spent.input:,} in ({spent.cached:,} cached), {spent.output:,} out"),
        ("Cost", report_format.money(spent.cost).replace("$", "\\$")),
        (
            "Limits",
            plain_text(", ".join(report_format.format_limit(*each) for each in story.limits.items())) or "none",
        ),
    ]
    yield _table(("", ""), rows)
    if story.notices:
        yield "\n".join(f"- {plain_text(notice.text, 1000)}" for notice in story.notices)


def _answer(story: RunTimeline) -> Iterator[str]:
    finished = story.finished
    if finished is not None and finished.has_answer:
        kept = (
            f" (snapshot {plain_text(report_format.short_snapshot(finished.snapshot))})" if finished.snapshot else ""
        )
        yield f"## The answer: {plain_text(finished.winner)}{kept}"
        yield code_block(finished.text, "markdown")


def _agents(story: RunTimeline) -> Iterator[str]:
    yield "## Agents"
    rows: list[tuple[str, ...]] = []
    for name, info in story.agents.items():
        used = story.used.get(name)
        tokens = f"{used.spent.input:,} / {used.spent.output:,}" if used else "0 / 0"
        cost = report_format.money(used.spent.cost if used else 0.0).replace("$", "\\$")
        calls, files = len(story.calls_of(name)), len(story.files_of(name))
        who = plain_text(" · ".join(filter(None, (info.backend, info.model))))
        came = plain_text(report_format.agent_outcome(story, name))
        rows.append((plain_text(name), who, came, str(calls), str(files), tokens, cost))
    yield _table(("Agent", "Model", "Came to", "Calls", "Files", "Tokens in / out", "Cost"), rows)


def _votes(story: RunTimeline) -> Iterator[str]:
    votes = [part for parts in story.rounds.values() for part in parts.values() if part.vote]
    if votes:
        yield "## Votes"
        rows = [
            (
                str(part.round),
                plain_text(part.agent),
                plain_text(part.vote.choice) or "nobody",
                plain_text(part.vote.why, 1000),
            )
            for part in votes
            if part.vote
        ]
        yield _table(("Round", "Agent", "Voted for", "Why"), rows)


def _rounds(story: RunTimeline) -> Iterator[str]:
    yield "## What happened"
    for number, parts in story.rounds.items():
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
        yield f"It voted for {plain_text(part.vote.choice) or 'nobody'}: {plain_text(part.vote.why, 1000)}"
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


def _files(story: RunTimeline, diffs: Mapping[str, str]) -> Iterator[str]:
    told = [name for name in story.agents if diffs.get(name) or story.files_of(name)]
    if told:
        yield "## Files"
    for name in told:
        yield f"### {plain_text(name)}"
        if diffs.get(name):
            yield code_block(truncate(diffs[name], _MAX_DIFF), "diff")
        else:
            yield "\n".join(f"- {plain_text(path)}" for path in story.files_of(name))


def _time_line(story: RunTimeline) -> Iterator[str]:
    rows: list[tuple[float, str, str]] = []
    for parts in story.rounds.values():
        for part in parts.values():
            rows.append((part.began, part.agent, f"began round {part.round}"))
            rows += [(step.at, part.agent, step.text) for step in part.steps if isinstance(step, NoteStep)]
            if part.answer is not None:
                rows.append((part.answer.at, part.agent, "answered"))
            if part.vote is not None:
                rows.append((part.vote.at, part.agent, f"voted for {part.vote.choice or 'nobody'}"))
            if part.failure is not None:
                rows.append((part.failure.at, part.agent, f"failed: {part.failure.why}"))
    if rows:
        yield "## Time line"
        told = [
            (report_format.offset(story, at), plain_text(agent), plain_text(what)) for at, agent, what in sorted(rows)
        ]
        yield _table(("At", "Agent", "What"), told)


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = [*titles]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)
