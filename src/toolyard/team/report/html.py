"""Renders the report as one self-contained HTML file: no scripts, images, fonts or links to other hosts.

Its content security policy allows only its own style, so injected markup would have no effect.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from toolyard.team.events import EndReason
from toolyard.team.report import format as report_format
from toolyard.team.report.diffs import render_diff
from toolyard.team.report.rounds import render_rounds
from toolyard.team.report.style import STYLE
from toolyard.team.report.tags import Html, join_html, markdown_html, tag
from toolyard.team.report.time_line import time_line
from toolyard.team.report.timeline_model import RunTimeline

_GOOD: Final = frozenset({EndReason.ANSWERED, EndReason.CONSENSUS})
_LONG_TASK: Final = 280
_LEGEND: Final = (
    "Bars are rounds, thin marks are tool calls (red: failed), the yellow line is waiting for the model, "
    "rings are answers, dots are votes."
)


def render_html(timeline: RunTimeline, diffs: Mapping[str, str]) -> str:
    """Returns the HTML report. `diffs` holds the diff of each agent."""
    title = f"Run {report_format.one_line(timeline.run)}: {report_format.one_line(timeline.task, 80)}"
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    body = tag(
        "main",
        _header_section(timeline),
        *_answer(timeline),
        tag("h2", "Agents", id="agents"),
        _agents(timeline),
        *_votes(timeline),
        tag("h2", "Time line", id="time"),
        tag("div", time_line(timeline), tag("p", _LEGEND, class_="legend"), class_="card"),
        tag("h2", "What happened", id="rounds"),
        render_rounds(timeline),
        *_files(timeline, diffs),
        tag("footer", "Written by Toolyard from the log of this run, events.jsonl."),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n"


def _header_section(timeline: RunTimeline) -> Html:
    word, why = report_format.end_labels(timeline)
    ended = timeline.finished.ended if timeline.finished else None
    colour = "good" if ended in _GOOD else "bad" if ended is EndReason.FAILED else "warn"
    spent = timeline.total_spent
    rounds = timeline.finished.rounds if timeline.finished else len(timeline.rounds)
    cached = f" ({spent.cached:,} cached)" if spent.cached else ""
    limits, resumed = (
        timeline.limits,
        f", resumed {report_format.pluralize(timeline.resumed, 'time')}" if timeline.resumed else "",
    )
    figures = [
        (report_format.duration(timeline.seconds), _with_limit("time", limits, "seconds")),
        (f"{rounds:,}", _with_limit("round" if rounds == 1 else "rounds", limits, "rounds")),
        (
            f"{spent.total:,}",
            _with_limit("tokens", limits, "tokens"),
            f"{spent.input:,} in{cached}, {spent.output:,} out",
        ),
        (report_format.money(spent.cost), _with_limit("cost", limits, "cost")),
    ]
    links = [("agents", "Agents"), ("time", "Time line"), ("rounds", "What happened"), ("files", "Files")]
    notices = [tag("p", tag("span", "! ", class_="warn"), notice.text, class_="why") for notice in timeline.notices]
    return join_html(
        [
            tag("h1", "Run ", tag("code", timeline.run), f"  ·  {report_format.moment(timeline.began)}{resumed}"),
            tag("div", timeline.task.strip(), class_="task long" if len(timeline.task) > _LONG_TASK else "task"),
            tag("p", tag("span", word, class_=f"pill {colour}"), why, class_="why"),
            *notices,
            tag("div", *(_figure(*each) for each in figures), class_="figures"),
            tag("nav", *(tag("a", text, href=f"#{to}") for to, text in links)),
        ]
    )


def _figure(value: str, *about: str) -> Html:
    return tag("div", tag("b", value), *(tag("span", each) for each in about), class_="figure")


def _with_limit(thing: str, limits: Mapping[str, float], name: str) -> str:
    return (
        f"{thing}, of {report_format.format_limit(name, limits[name]).removesuffix(f' {name}')}"
        if limits.get(name)
        else thing
    )


def _answer(timeline: RunTimeline) -> Iterator[Html]:
    finished = timeline.finished
    if finished is None or not finished.has_answer:
        return
    yield tag("h2", f"The answer of {report_format.one_line(finished.winner)}", id="answer")
    yield tag("div", markdown_html(finished.text), class_="card won")
    if finished.snapshot:
        yield tag(
            "p",
            "Its files are in snapshot ",
            tag("code", report_format.short_snapshot(finished.snapshot)),
            ".",
            class_="dim",
        )


def _agents(timeline: RunTimeline) -> Html:
    rows: list[Html] = []
    for name, info in timeline.agents.items():
        used = timeline.used.get(name)
        spent = used.spent if used else None
        calls = timeline.calls_of(name)
        failed = sum(call.ok is False for call in calls)
        numbers = (
            f"{len(calls):,}" + (f" ({failed:,} failed)" if failed else ""),
            f"{len(timeline.files_of(name)):,}",
            f"{used.turns:,}" if used else "0",
            f"{spent.input:,}" if spent else "0",
            f"{spent.cached:,}" if spent else "0",
            f"{spent.output:,}" if spent else "0",
            report_format.money(spent.cost if spent else 0.0),
        )
        model = " · ".join(filter(None, (info.backend, info.model)))
        who = join_html(
            [
                tag("b", report_format.one_line(name)),
                tag("br"),
                tag("span", report_format.one_line(model), class_="dim"),
            ]
        )
        rows.append(
            tag(
                "tr",
                tag("td", who),
                tag("td", report_format.agent_outcome(timeline, name)),
                *(tag("td", n, class_="n") for n in numbers),
            )
        )
    return _table(("Agent", "Result"), ("Calls", "Files", "Turns", "In", "Cached", "Out", "Cost"), rows)


def _votes(timeline: RunTimeline) -> Iterator[Html]:
    votes = [part.vote for parts in timeline.rounds.values() for part in parts.values() if part.vote]
    if not votes:
        return
    yield tag("h2", "Votes", id="votes")
    rows = [
        tag(
            "tr",
            *(tag("td", cell) for cell in (str(vote.round), vote.agent, vote.choice or "no one", vote.why)),
        )
        for vote in votes
    ]
    yield _table(("Round", "Agent", "Voted for", "Why"), (), rows)


def _files(timeline: RunTimeline, diffs: Mapping[str, str]) -> Iterator[Html]:
    yield tag("h2", "Files", id="files")
    agents = [name for name in timeline.agents if diffs.get(name) or timeline.files_of(name)]
    if not agents:
        yield tag("p", "No file was changed.", class_="dim")
    for name in agents:
        yield tag("h3", report_format.one_line(name))
        if diffs.get(name):
            yield render_diff(diffs[name])
        else:
            yield tag("ul", *(tag("li", tag("code", path)) for path in timeline.files_of(name)))


def _table(titles: Iterable[str], numbers: Iterable[str], rows: Iterable[Html]) -> Html:
    heads = [*(tag("th", title) for title in titles), *(tag("th", title, class_="n") for title in numbers)]
    return tag("div", tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows)), class_="card scroll")
