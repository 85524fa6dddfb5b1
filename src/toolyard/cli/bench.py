"""`toolyard bench`: measure Toolyard beside its peers. Figures go to stdout, progress to stderr.

Exit codes: 0 measured, whether or not every target was met; 1 something could not be measured. With --check a missed
target is 1 as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import TypeVar

import click

from toolyard.bench import assistant as assistant_bench
from toolyard.bench import bridge as bridge_bench
from toolyard.bench import codemode as codemode_bench
from toolyard.bench import context as context_bench
from toolyard.bench import files as file_bench
from toolyard.bench import sandbox as sandbox_bench
from toolyard.bench import snapshots as snapshot_bench
from toolyard.bench.bench import FULL, QUICK, Sizes
from toolyard.bench.report import Report, as_json, as_table, as_text
from toolyard.bench.wire import BenchFault
from toolyard.config.settings import Settings

FAILED = 1
_EXAMPLES = """\b
Examples:
  toolyard bench files                      searching and file calls; a few minutes
  toolyard bench sandbox                    commands and code; a few minutes
  toolyard bench codemode                   tool calls, sync, search, context; ten minutes
  toolyard bench snapshots                  taking and restoring snapshots; ten minutes
  toolyard bench context                    teams of agents: tokens, turns, a hundred at once; ten minutes
  toolyard bench assistant                  a second opinion: start, calls, threads, files; three minutes
  toolyard bench bridge                     a client's files in a server's cache; two minutes
  toolyard bench sandbox --quick            a first look, on small inputs
"""
_FILES_EXAMPLES = """\b
Examples:
  toolyard bench files                      everything; a few minutes
  toolyard bench files --quick              a first look, on small inputs
  toolyard bench files --only grep --json   one measure, for a program
"""
_SANDBOX_EXAMPLES = """\b
Examples:
  toolyard bench sandbox                    everything; a few minutes
  toolyard bench sandbox --quick            a first look, on small inputs
  toolyard bench sandbox --only warm --only cold
  toolyard bench sandbox --check --out sandbox.json
"""
_CODEMODE_EXAMPLES = """\b
Examples:
  toolyard bench codemode                   everything; ten minutes
  toolyard bench codemode --quick           a first look, on small inputs
  toolyard bench codemode --only calls --only first
  toolyard bench codemode --check --out codemode.json
"""
_SNAPSHOTS_EXAMPLES = """\b
Examples:
  toolyard bench snapshots                  everything; ten minutes
  toolyard bench snapshots --quick          a first look, on small inputs
  toolyard bench snapshots --only again --check
"""
_CONTEXT_EXAMPLES = """\b
Examples:
  toolyard bench context                    everything; ten minutes
  toolyard bench context --quick            a first look, on small inputs
  toolyard bench context --only tokens --check
"""
_ASSISTANT_EXAMPLES = """\b
Examples:
  toolyard bench assistant                  everything; three minutes
  toolyard bench assistant --quick          a first look, on small inputs
  toolyard bench assistant --only start --only waiting --check
"""
_BRIDGE_EXAMPLES = """\b
Examples:
  toolyard bench bridge                     everything; two minutes
  toolyard bench bridge --quick             a first look, on small inputs
  toolyard bench bridge --only hit --check
"""

_Command = TypeVar("_Command", bound=Callable[..., object])
Run = Callable[[Sizes, Settings, Callable[[str], None], Collection[str]], Report]


@click.group(epilog=_EXAMPLES)
def bench() -> None:
    """Measure Toolyard beside its peers, in one run."""


_JSON = click.option("--json", "wants_json", is_flag=True, help="Print the report as JSON.")
_QUICK = click.option("--quick", is_flag=True, help="Small inputs and few rounds: for a look, not for quoting.")
_OUT = click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help="Also keep the JSON here."
)
_CHECK = click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")


def _only(names: Collection[str]) -> Callable[[_Command], _Command]:
    told = f"Only this measure, or several by repeating it: {', '.join(names)}."
    return click.option("--only", metavar="NAME", multiple=True, type=click.Choice(list(names)), help=told)


@bench.command(epilog=_FILES_EXAMPLES)
@_JSON
@_QUICK
@_only(file_bench.MEASURES)
@_OUT
@_CHECK
def files(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
    """Measure the file tools: searching, calls a second, start, path check, audit line, tokens.

    The reference filesystem server is installed with npm into ~/.cache/toolyard/bench at the first run.
    """
    _measure(file_bench.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)


@bench.command(epilog=_SANDBOX_EXAMPLES)
@_JSON
@_QUICK
@_only(sandbox_bench.MEASURES)
@_OUT
@_CHECK
def sandbox(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
    """Measure the sandbox: warm and cold runs, calls, reads under load, many agents, memory."""
    _measure(sandbox_bench.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)


@bench.command(epilog=_CODEMODE_EXAMPLES)
@_JSON
@_QUICK
@_only(codemode_bench.MEASURES)
@_OUT
@_CHECK
def codemode(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
    """Measure code mode: tool calls, sync, what attached servers cost, finding tools.

    FastMCP, one of the peers, is installed into ~/.cache/toolyard/bench at the first run.
    """
    _measure(codemode_bench.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)


@bench.command(epilog=_SNAPSHOTS_EXAMPLES)
@_JSON
@_QUICK
@_only(snapshot_bench.MEASURES)
@_OUT
@_CHECK
def snapshots(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
    """Measure snapshots: the first, an unchanged tree, one change, restoring, ten times the files, forks.

    The peers are cp -r, cp -al and git add + write-tree. Needs a few gigabytes of the temporary folder.
    """
    _measure(snapshot_bench.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)


@bench.command(epilog=_CONTEXT_EXAMPLES)
@_JSON
@_QUICK
@_only(context_bench.MEASURES)
@_OUT
@_CHECK
def context(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
    """Measure teams of agents: what a model is sent, what a run adds to each turn, a hundred agents at once.

    The peer is pydantic-ai's own model, and the model a program of ours that answers at once.
    """
    _measure(context_bench.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)


@bench.command(epilog=_ASSISTANT_EXAMPLES)
@_JSON
@_QUICK
@_only(assistant_bench.MEASURES)
@_OUT
@_CHECK
def assistant(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
    """Measure the assistant: start, tools, what it adds to a call, calls at once, threads, a million tokens of files.

    The peers are a server of one tool on the MCP SDK, and pydantic-ai alone; the model is a program of ours.
    """
    _measure(assistant_bench.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)


@bench.command(epilog=_BRIDGE_EXAMPLES)
@_JSON
@_QUICK
@_only(bridge_bench.MEASURES)
@_OUT
@_CHECK
def bridge(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
    """Measure the cache of clients' files: a hit, many entries beside few, batches; and files handed to a server.

    In memory and in SQLite, each beside the other or beside less of the same.
    """
    _measure(bridge_bench.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)


def _measure(run: Run, *, quick: bool, only: Collection[str], out: str | None, check: bool, wants_json: bool) -> None:
    settings = Settings.from_environment()
    try:
        report = run(QUICK if quick else FULL, settings, _say, only)
    except BenchFault as fault:
        click.echo(f"toolyard bench: {fault}", err=True)
        sys.exit(FAILED)
    if out is not None:
        with open(out, "w", encoding="utf-8") as file:
            file.write(as_json(report) + "\n")
    _print(report, wants_json=wants_json, no_color=settings.no_color)
    if check and report.missed:
        sys.exit(FAILED)


def _say(message: str) -> None:
    click.echo(f"… {message}", err=True)


def _print(report: Report, *, wants_json: bool, no_color: bool) -> None:
    if wants_json:
        click.echo(as_json(report))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console(no_color=no_color or None).print(as_table(report))
    else:
        click.echo(as_text(report))
