"""`toolyard bench`: measure Toolyard beside its peers. Figures go to stdout, progress to stderr.

Exit codes: 0 measured, whether or not every target was met; 1 something could not be measured. With --check a missed
target is 1 as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

import click

from benchmarks.assistant import suite as assistant_bench
from benchmarks.benchmark import FULL, QUICK, Sizes
from benchmarks.bridge import suite as bridge_bench
from benchmarks.codemode import suite as codemode_bench
from benchmarks.context import suite as context_bench
from benchmarks.files import suite as file_bench
from benchmarks.lean_client import BenchFault
from benchmarks.report import Report, as_json, as_table, as_text
from benchmarks.sandbox import suite as sandbox_bench
from benchmarks.snapshots import suite as snapshot_bench
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


class Suite(Protocol):
    """A module of measures."""

    @property
    def MEASURES(self) -> Collection[str]: ...  # noqa: N802 - a module's constant

    @property
    def run(self) -> Run: ...


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


def _suite_command(name: str, suite: Suite, examples: str, description: str) -> click.Command:
    """The command that runs one suite. All of them take the same options."""

    @click.command(name, epilog=examples, help=description)
    @_JSON
    @_QUICK
    @_only(suite.MEASURES)
    @_OUT
    @_CHECK
    def command(*, wants_json: bool, quick: bool, only: tuple[str, ...], out: str | None, check: bool) -> None:
        _measure(suite.run, quick=quick, only=only, out=out, check=check, wants_json=wants_json)

    return command


_DESCRIPTIONS = {
    "files": """\
Measure the file tools: searching, calls a second, start, path check, audit line, tokens.

The reference filesystem server is installed with npm into ~/.cache/toolyard/bench at the first run.""",
    "sandbox": """\
Measure the sandbox: warm and cold runs, calls, reads under load, many agents, memory.""",
    "codemode": """\
Measure code mode: tool calls, sync, what attached servers cost, finding tools.

FastMCP, one of the peers, is installed into ~/.cache/toolyard/bench at the first run.""",
    "snapshots": """\
Measure snapshots: the first, an unchanged tree, one change, restoring, ten times the files, forks.

The peers are cp -r, cp -al and git add + write-tree. Needs a few gigabytes of the temporary folder.""",
    "context": """\
Measure teams of agents: what a model is sent, what a run adds to each turn, a hundred agents at once.

The peer is pydantic-ai's own model, and the model a program of ours that answers at once.""",
    "assistant": """\
Measure the assistant: start, tools, what it adds to a call, calls at once, threads, a million tokens of files.

The peers are a server of one tool on the MCP SDK, and pydantic-ai alone; the model is a program of ours.""",
    "bridge": """\
Measure the cache of clients' files: a hit, many entries beside few, batches; and files handed to a server.

In memory and in SQLite, each beside the other or beside less of the same.""",
}
_SUITES: dict[str, tuple[Suite, str]] = {
    "files": (file_bench, _FILES_EXAMPLES),
    "sandbox": (sandbox_bench, _SANDBOX_EXAMPLES),
    "codemode": (codemode_bench, _CODEMODE_EXAMPLES),
    "snapshots": (snapshot_bench, _SNAPSHOTS_EXAMPLES),
    "context": (context_bench, _CONTEXT_EXAMPLES),
    "assistant": (assistant_bench, _ASSISTANT_EXAMPLES),
    "bridge": (bridge_bench, _BRIDGE_EXAMPLES),
}


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


for _name, (_suite, _examples) in _SUITES.items():
    bench.add_command(_suite_command(_name, _suite, _examples, _DESCRIPTIONS[_name]))

if __name__ == "__main__":
    bench(prog_name="python -m benchmarks")
