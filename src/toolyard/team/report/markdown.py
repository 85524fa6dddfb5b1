"""The report as Markdown. What a model or a tool wrote stands between fences that it cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from toolyard.team.report import format as report_format
from toolyard.team.report.timeline_model import Changed, Made, Noted, Part, Said, Step, Story, cut

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#|~&!$^])")
_ADDRESS: Final = re.compile(r"://|www\.|@", re.IGNORECASE)
_LIST_MARK: Final = re.compile(r"^(\d*)([-+=.)])")
_BAR: Final = "\u2502"
"""Stands for `|` in code, where a table would be cut and an escape would show."""
_TICKS: Final = re.compile(r"`+")
_LONGEST_RESULT: Final = 4_000
_LONGEST_DIFF: Final = 200_000
_SHOWN_PATHS: Final = 20


def markdown_of(story: Story, diffs: Mapping[str, str]) -> str:
    blocks = (
        *_beginning(story),
        *_answer(story),
        *_agents(story),
        *_votes(story),
        *_rounds(story),
        *_files(story, diffs),
        *_time_line(story),
    )
    return "\n\n".join(blocks) + "\n"


def plain(text: str, longest: int = 200) -> str:
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


def fenced(text: str, kind: str = "") -> str:
    """A text as it is, between fences longer than any in it."""
    shown = report_format.visible(text).strip("\n")
    longest = max((len(ticks) for ticks in _TICKS.findall(shown)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{kind}\n{shown}\n{fence}"


def _beginning(story: Story) -> Iterator[str]:
    word, why = report_format.ending(story)
    yield f"# Run {plain(story.run)}"
    yield fenced(story.task)
    yield f"**{word}.** {plain(why, 1000)}"
    spent, resumed = story.spent, f", resumed {report_format.counted(story.resumed, 'time')}" if story.resumed else ""
    rows = [
        ("Begun", f"{report_format.moment(story.began)}{resumed}"),
        ("Time", report_format.duration(story.seconds)),
        ("Rounds", str(story.finished.rounds if story.finished else len(story.rounds))),
        ("Tokens", f"{spent.input:,} in ({spent.cached:,} cached), {spent.output:,} out"),
        ("Cost", report_format.money(spent.cost).replace("$", "\\$")),
        ("Limits", plain(", ".join(report_format.limit(*each) for each in story.limits.items())) or "none"),
    ]
    yield _table(("", ""), rows)
    if story.notices:
        yield "\n".join(f"- {plain(notice.text, 1000)}" for notice in story.notices)


def _answer(story: Story) -> Iterator[str]:
    finished = story.finished
    if finished is not None and finished.has_answer:
        kept = f" (snapshot {plain(report_format.snapshot(finished.snapshot))})" if finished.snapshot else ""
        yield f"## The answer: {plain(finished.winner)}{kept}"
        yield fenced(finished.text, "markdown")


def _agents(story: Story) -> Iterator[str]:
    yield "## Agents"
    rows: list[tuple[str, ...]] = []
    for name, info in story.agents.items():
        used = story.used.get(name)
        tokens = f"{used.spent.input:,} / {used.spent.output:,}" if used else "0 / 0"
        cost = report_format.money(used.spent.cost if used else 0.0).replace("$", "\\$")
        calls, files = len(story.calls_of(name)), len(story.files_of(name))
        who = plain(" · ".join(filter(None, (info.backend, info.model))))
        came = plain(report_format.came_to(story, name))
        rows.append((plain(name), who, came, str(calls), str(files), tokens, cost))
    yield _table(("Agent", "Model", "Came to", "Calls", "Files", "Tokens in / out", "Cost"), rows)


def _votes(story: Story) -> Iterator[str]:
    votes = [part for parts in story.rounds.values() for part in parts.values() if part.vote]
    if votes:
        yield "## Votes"
        rows = [
            (str(part.round), plain(part.agent), plain(part.vote.choice) or "nobody", plain(part.vote.why, 1000))
            for part in votes
            if part.vote
        ]
        yield _table(("Round", "Agent", "Voted for", "Why"), rows)


def _rounds(story: Story) -> Iterator[str]:
    yield "## What happened"
    for number, parts in story.rounds.items():
        yield f"### Round {number}" if number else "### Before the first round"
        for part in parts.values():
            yield f"#### {plain(part.agent)}"
            yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    for step in part.steps:
        yield from _step(step)
    if part.left_out:
        yield f"… and {report_format.counted(part.left_out, 'more step')}."
    if part.answer is not None and part.has_said_answer:
        yield "That is its answer."
    elif part.answer is not None:
        yield "Its answer:"
        yield fenced(part.answer.text, "markdown")
    if part.vote is not None:
        yield f"It voted for {plain(part.vote.choice) or 'nobody'}: {plain(part.vote.why, 1000)}"
    if part.failure is not None:
        yield f"It failed: {plain(part.failure.why, 1000)} {plain(part.failure.hint, 1000)}".rstrip()


def _step(step: Step) -> Iterator[str]:
    match step:
        case Said():
            if step.text.strip():
                yield "Thought:" if step.is_thinking else "Said:"
                yield fenced(step.text)
        case Made():
            came = {True: "✓", False: "✗", None: "no result:"}[step.ok]
            took = f" ({report_format.duration(step.seconds)})" if step.seconds else ""
            yield f"{came} **{plain(step.tool)}**{took}"
            yield fenced(cut(report_format.arguments(step), _LONGEST_RESULT), "json")
            if step.text:
                yield fenced(cut(step.text, _LONGEST_RESULT))
        case Changed():
            named = ", ".join(plain(path) for path in step.paths[:_SHOWN_PATHS])
            more = f" and {step.total - _SHOWN_PATHS:,} more" if step.total > _SHOWN_PATHS else ""
            yield f"Changed {named}{more} (snapshot {plain(report_format.snapshot(step.snapshot))})."
        case Noted():
            yield f"Note: {plain(step.text, 1000)}"


def _files(story: Story, diffs: Mapping[str, str]) -> Iterator[str]:
    told = [name for name in story.agents if diffs.get(name) or story.files_of(name)]
    if told:
        yield "## Files"
    for name in told:
        yield f"### {plain(name)}"
        if diffs.get(name):
            yield fenced(cut(diffs[name], _LONGEST_DIFF), "diff")
        else:
            yield "\n".join(f"- {plain(path)}" for path in story.files_of(name))


def _time_line(story: Story) -> Iterator[str]:
    rows: list[tuple[float, str, str]] = []
    for parts in story.rounds.values():
        for part in parts.values():
            rows.append((part.began, part.agent, f"began round {part.round}"))
            rows += [(step.at, part.agent, step.text) for step in part.steps if isinstance(step, Noted)]
            if part.answer is not None:
                rows.append((part.answer.at, part.agent, "answered"))
            if part.vote is not None:
                rows.append((part.vote.at, part.agent, f"voted for {part.vote.choice or 'nobody'}"))
            if part.failure is not None:
                rows.append((part.failure.at, part.agent, f"failed: {part.failure.why}"))
    if rows:
        yield "## Time line"
        told = [(report_format.offset(story, at), plain(agent), plain(what)) for at, agent, what in sorted(rows)]
        yield _table(("At", "Agent", "What"), told)


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = [*titles]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)
