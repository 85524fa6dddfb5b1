"""`toolyard run`: run the agents of a configuration on a task, alone or as a team.

Exit codes: 0 with an answer, 1 without one, 2 wrong usage, 124 a limit (time, tokens, cost) ended it with an answer
so far, 130 interrupted. The command owns the run: the first Ctrl-C stops it and keeps finished work, the second ends
it immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import click

from toolyard.cli.common.options import state_option
from toolyard.cli.common.param_types import NameChoice, PositiveNumber
from toolyard.cli.common.signals import handle_signals, stop_on_broken_pipe
from toolyard.cli.common.stdin_argument import read_text_argument
from toolyard.core.paths import is_beneath
from toolyard.core.text import printable

if TYPE_CHECKING:
    from toolyard.cli.run.displays import Display, DisplayKind
    from toolyard.config.models import Config, TeamLimits
    from toolyard.config.settings import Settings
    from toolyard.team.events import RunFinished
    from toolyard.team.options import RunOptions
    from toolyard.team.run import TeamRun
    from toolyard.team.run_list import KnownRun

_INTERRUPTED: Final = 130
_LIMIT: Final = 124
_DISPLAYS: Final = ("rich_terminal", "simple", "silent")
_EXAMPLES: Final = """\b
Examples:
  toolyard run agent.yaml "Write a README for this project"
  toolyard run team.yaml - < task.md
  toolyard run --check team.yaml                explain the run, without starting anything
  toolyard run team.yaml "Fix the bug" --rounds 2 --max-cost 0.50 --timeout 600
  toolyard run team.yaml "Draw the plan" --apply .   copy the winner's files here
  toolyard run --list                           list the runs
  toolyard run --resume 3f2a81bc                continue an interrupted run
  toolyard run --resume 3f2a81bc --apply .      copy the files of a finished run
  toolyard run team.yaml "..." --json | jq -r 'select(.type == "answered").text'

\b
Exit codes: 0 with an answer, 1 without one, 2 wrong usage, 124 ended by a limit, 130 interrupted.
"""


@click.command(epilog=_EXAMPLES)
@click.argument("config_file", metavar="CONFIG", required=False)
@click.argument("task", required=False)
@click.option("--check", is_flag=True, help="Explain the run: agents, tools, tokens, sandbox. Starts nothing.")
@click.option(
    "--resume", metavar="ID", default="", help="Continue this run; with --apply, copy the files of a finished one."
)
@click.option("--list", "wants_list", is_flag=True, help="List the runs of CONFIG, or all runs.")
@click.option(
    "--rounds", metavar="N", type=click.IntRange(min=1), help="Maximum number of rounds.  [default: as configured]"
)
@click.option("--timeout", metavar="S", type=PositiveNumber(), help="Maximum duration in seconds.")
@click.option("--max-tokens", metavar="N", type=click.IntRange(min=1), help="Maximum tokens of all agents together.")
@click.option("--max-cost", metavar="USD", type=PositiveNumber(), help="Maximum cost in USD.")
@click.option("--apply", "folder", metavar="DIR", help="Copy the winner's changes into this folder.")
@click.option("--display", type=NameChoice([*_DISPLAYS]), help="[default: as configured, simple in a pipe]")
@state_option("The folder for runs, audit log and snapshots.")
@click.option("--json", "wants_json", is_flag=True, help="Print each event as one line of JSON.")
def run(
    *,
    config_file: str | None,
    task: str | None,
    check: bool,
    resume: str,
    wants_list: bool,
    rounds: int | None,
    timeout: float | None,
    max_tokens: int | None,
    max_cost: float | None,
    folder: str | None,
    display: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Run the agents of CONFIG on TASK (- for stdin).

    Each agent works in its own folder, with the tools and rights that CONFIG gives it. Several agents answer, see the
    work of the others, and vote for the best answer. The answer is printed; the files stay in the agents' folders.
    """
    from toolyard.config.settings import Settings  # not needed for `--help`

    settings = Settings.from_environment()
    if wants_list:
        from toolyard.cli.run.list import show_runs

        show_runs(config_file, state or settings.state_home, wants_json=wants_json)
        return
    config = _load_run_config(config_file, resume, state or settings.state_home)
    limits = _limits(config, rounds, timeout, max_tokens, max_cost)
    if check:
        _check(config, settings, state, limits, wants_json=wants_json)
        return
    from toolyard.team.options import RunOptions

    options = RunOptions(
        config, _read_task(task, resume), settings=settings, state_home=state, limits=limits, resume=resume
    )
    if resume and folder is not None and _apply_finished_run(options, folder, wants_json=wants_json):
        return
    sys.exit(_run(options, display, folder, wants_json=wants_json))


def _load_run_config(path: str | None, resume: str, state_home: str) -> Config:
    from toolyard.config.agents import check_memory_rights
    from toolyard.config.loader import load_config

    if path is None and resume:
        path = _config_path_of_run(resume, state_home)
    if path is None:
        raise click.UsageError("Pass the configuration: toolyard run CONFIG TASK. `toolyard init` writes one.")
    if not os.path.exists(path):
        raise click.UsageError(f"There is no file {path!r}. The configuration comes first: toolyard run CONFIG TASK.")
    config = load_config(path)
    check_memory_rights(config)
    return config


def _config_path_of_run(resume: str, state_home: str) -> str:
    from toolyard.team.paths import find_run
    from toolyard.team.store import RunStore

    with RunStore(find_run(resume, state_home)) as store:
        return store.required_fact("config")


def _check(config: Config, settings: Settings, state: str | None, limits: TeamLimits, *, wants_json: bool) -> None:
    from toolyard.cli.run.check_view import show_check
    from toolyard.team.check.check import check_run

    report = check_run(config, settings, state, limits=limits)
    show_check(report, wants_json=wants_json)
    sys.exit(1 if report.problems else 0)


def _read_task(given: str | None, resume: str) -> str:
    if resume:
        if given is not None:
            raise click.UsageError("A resumed run already has its task: omit TASK.")
        return ""
    given = read_text_argument(given, "TASK") if given is not None else None
    if given is None or not given.strip():
        raise click.UsageError("Pass a task: toolyard run CONFIG TASK.")
    return given


def _limits(
    config: Config, rounds: int | None, timeout: float | None, tokens: int | None, cost: float | None
) -> TeamLimits:
    given = {"rounds": rounds, "seconds": timeout, "tokens": tokens, "cost": cost}
    update = {name: value for name, value in given.items() if value is not None}
    return config.orchestrator.limits.model_copy(update=update)


def _run(options: RunOptions, chosen: str | None, folder: str | None, *, wants_json: bool) -> int:
    from toolyard.cli.drive.approvals import make_askers
    from toolyard.cli.run.displays import display_for
    from toolyard.cli.run.summary import resume_command
    from toolyard.team.run import TeamRun

    if folder is not None:
        _check_target(folder, options.state_home or options.settings.state_home)
    ui = options.config.ui
    kind = cast("DisplayKind", "json" if wants_json else chosen or ui.display_type)
    display = display_for(
        kind,
        no_color=options.settings.no_color,
        resume=lambda finished: resume_command(finished, options.state_home),
        has_report=ui.logging_enabled,
    )
    with contextlib.closing(display) as showing:
        run = TeamRun(replace(options, askers=make_askers(showing.pause)), showing.handle_event)
        if kind not in {"json", "silent"} and sys.stderr.isatty():
            click.echo("Starting ...", err=True)  # importing the model clients takes a second or two
        finished = asyncio.run(_show_run(run, showing))
    if folder is not None and finished.has_answer:
        _apply_files(options, finished, folder, wants_json=wants_json)
    return _exit_code(finished)


def _check_target(folder: str, state_home: str) -> None:
    """Checks the target folder before the run, so that no work is lost."""
    if not os.path.isdir(folder):
        raise click.BadParameter(f"{folder} is not a folder. Create it first.", param_hint="'--apply'")
    if is_beneath(os.path.realpath(state_home), os.path.realpath(folder)):
        what = f"{folder} contains Toolyard's own state ({state_home}). Choose a subfolder."
        raise click.BadParameter(what, param_hint="'--apply'")


def _apply_finished_run(options: RunOptions, folder: str, *, wants_json: bool) -> bool:
    """Copies the files of a finished run; returns False if the run has not finished."""
    from toolyard.team.paths import find_run
    from toolyard.team.run_list import read_run

    state_home = options.state_home or options.settings.state_home
    run = read_run(find_run(options.resume, state_home))
    if not run.is_over:
        return False
    _check_target(folder, state_home)
    _apply_files(options, run, folder, wants_json=wants_json)
    return True


async def _show_run(run: TeamRun, display: Display) -> RunFinished:
    def stop_run() -> None:
        run.stop()
        display.show_stopping()

    with handle_signals(stop_run, display.close, _INTERRUPTED), stop_on_broken_pipe(run.stop):
        return await run.go()


def _exit_code(finished: RunFinished) -> int:
    from toolyard.team.events import EndReason

    if finished.ended is EndReason.INTERRUPTED:
        return _INTERRUPTED
    if not finished.has_answer:
        return 1
    return _LIMIT if finished.ended in {EndReason.TIME, EndReason.TOKENS, EndReason.COST} else 0


def _apply_files(options: RunOptions, finished: RunFinished | KnownRun, folder: str, *, wants_json: bool) -> None:
    """Copies the winner's files, and reports it unless JSON is printed."""
    from toolyard.team.apply_result import TeamFiles

    files = TeamFiles(options.config, options.settings, options.state_home, finished.began)
    delivered = files.apply_to_folder(finished.winner, finished.snapshot, folder)
    if wants_json:
        return
    if not delivered.undo:
        click.echo(f"{finished.winner} changed no files: {delivered.folder} is unchanged.", err=True)
        return
    removed = f", {delivered.removed} removed" if delivered.removed else ""
    click.echo(f"Copied into {delivered.folder}: {delivered.written} written{removed}.", err=True)
    for line in delivered.skipped:
        click.echo(f"Not changed: {printable(line)}", err=True)
    whose = ("--agent", finished.winner, "--workspace", delivered.folder)
    where = shlex.join(
        ("--config", options.config.source or "", *whose, *_option_words("--state", options.state_home))
    )
    click.echo(printable(f"To undo it: toolyard snapshot restore {delivered.undo} {where}"), err=True)


def _option_words(option: str, value: str | None) -> tuple[str, ...]:
    return (option, value) if value else ()
