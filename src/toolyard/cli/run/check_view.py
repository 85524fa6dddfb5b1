"""Prints the report of `toolyard run --check`: tables in a terminal, plain lines in a pipe, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from toolyard.config.settings import Settings
from toolyard.core.text import printable
from toolyard.team.check.report import AgentCheck, CheckReport, Finding, ServerCheck, ServerState

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_SERVERS: Final = 10
_SHOWN_TOOLS: Final = 12
_REASON_CHARS: Final = 160
_LIMITS: Final[Mapping[str, str]] = {
    "rounds": "{:g} rounds",
    "seconds": "{:g} seconds",
    "tokens": "{:,.0f} tokens",
    "cost": "${:.2f}",
    "turns": "{:g} turns of a model in a round",
}


def show_check(report: CheckReport, *, wants_json: bool = False) -> None:
    """Prints the report."""
    if wants_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    elif sys.stdout.isatty():
        from rich.console import Console

        _print_tables(report, Console(no_color=Settings.from_environment().no_color or None))
    else:
        for line in plain_lines(report):
            click.echo(printable(line))


def plain_lines(report: CheckReport) -> Iterator[str]:
    """Yields the whole report as plain lines."""
    for name, words in _run_rows(report):
        yield f"{name}: {words}"
    for agent in report.agents:
        yield ""
        yield f"agent {agent.id}"
        for name, words in _agent_rows(agent):
            yield f"  {name}: {words}"
    if report.problems or report.notices:
        yield ""
    for finding in report.problems:
        yield f"problem  {_finding_with_hint(finding)}"
    for finding in report.notices:
        yield f"notice   {_finding_with_hint(finding)}"
    yield ""
    yield verdict(report)


def verdict(report: CheckReport) -> str:
    """Returns the conclusion in one sentence."""
    if report.without and not report.problems:
        named = f"agent{'s' if len(report.without) > 1 else ''} {', '.join(report.without)}"
        return f"Ready, but the run starts without {named}."
    if report.without_commands and not report.problems:
        return f"Ready, but commands and code of {', '.join(report.without_commands)} will be refused."
    if not report.problems:
        return "Ready to run."
    number = len(report.problems)
    return f"Not ready: {number} {'problem stops' if number == 1 else 'problems stop'} the run."


def _finding_with_hint(finding: Finding) -> str:
    return _finding_text(finding) + (f" ({finding.hint})" if finding.hint else "")


def _finding_text(finding: Finding) -> str:
    """Returns a finding with its agent, unless the text already names it."""
    named = (f"agent {finding.agent} ", f'agent "{finding.agent}" ')
    if not finding.agent or any(words in finding.text for words in named):
        return finding.text
    return f"{finding.agent}: {finding.text}"


def _run_rows(report: CheckReport) -> Iterator[tuple[str, str]]:
    yield "configuration", report.config or "none"
    mode = "tools are files" if report.execution_mode == "filesystem_first" else "every tool is in the context"
    yield "execution mode", f"{report.execution_mode}: {mode}"
    yield "shared folder", report.root
    limits = (_LIMITS[name].format(value) for name, value in report.limits.items() if name in _LIMITS)
    yield "limits", ", ".join(limits) + " at most"


def _agent_rows(agent: AgentCheck) -> Iterator[tuple[str, str]]:
    model = f"{agent.backend}, {agent.model}" if agent.model else agent.backend
    yield "model", model or "none"
    if agent.access:
        yield "access", agent.access
    yield (
        "folder",
        f"{agent.workspace} {agent.folder}".strip() if agent.workspace else "none: the agent works without files",
    )
    if agent.workspace:
        yield "may", f"{agent.mode}: {agent.rights}"
        yield "sandbox", agent.walls
    yield "servers", _servers_text(agent.servers)
    yield "tools", _join_limited(agent.tools, _SHOWN_TOOLS) or "none"
    parts = f"{agent.tool_tokens:,} for tools, {agent.prompt_tokens:,} for the system prompt"
    yield "context", f"{agent.tokens:,} tokens before the task: {parts}"
    if agent.file_tools:
        cost = f"which would cost {agent.file_tokens:,} tokens in the context but cost none as files"
        yield "as files", f"{agent.file_tools:,} tools, {cost}"


def _servers_text(servers: tuple[ServerCheck, ...]) -> str:
    if not servers:
        return "none"
    words: list[str] = []
    for server in servers:
        failed = f"failed when it was last asked: {_shorten_reason(server.note)}" if server.note else ""
        if server.state is ServerState.KNOWN:
            count = f"{server.tools} tool{'' if server.tools == 1 else 's'}"
            status = f"{count}, {failed}" if failed else count
        elif server.state is ServerState.FAILED:
            status = failed or server.state.value
        else:
            status = server.state.value
        words.append(f"{server.name} ({status})")
    return _join_limited(tuple(words), _SHOWN_SERVERS)


def _shorten_reason(reason: str) -> str:
    first = reason.partition("\n")[0].rstrip(".")
    return first if len(first) <= _REASON_CHARS else f"{first[: _REASON_CHARS - 1]}…"


def _join_limited(words: tuple[str, ...], most: int) -> str:
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more:,} more" if more > 0 else "")


def _print_tables(report: CheckReport, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    def table(title: str, rows: Iterator[tuple[str, str]]) -> None:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, words in rows:
            grid.add_row(name, Text(printable(words)))  # Text, not str: a path must not be parsed as markup
        console.print(Text(printable(title), style="bold"))
        console.print(grid)
        console.print()

    table("Run", _run_rows(report))
    for agent in report.agents:
        table(f"Agent {agent.id}", _agent_rows(agent))
    for mark, style, findings in (("✗", "bold red", report.problems), ("!", "yellow", report.notices)):
        for finding in findings:
            line = Text(f"{mark} ", style=style).append(printable(_finding_text(finding)), style="default")
            console.print(line, soft_wrap=True)
            if finding.hint:
                console.print(Text(f"  → {printable(finding.hint)}", style="dim"), soft_wrap=True)
    if report.problems or report.notices:
        console.print()
    console.print(Text(verdict(report), style="bold red" if report.problems else "bold green"))
