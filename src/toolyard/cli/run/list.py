"""`toolyard run --list`: lists the stored runs."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict

import click

from toolyard.core.text import printable
from toolyard.team.events import EndReason
from toolyard.team.run_list import KnownRun, list_runs

_SHOWN_TASK = 60
_SHORT = 8


def show_runs(config_file: str | None, state_home: str, *, wants_json: bool) -> None:
    """Prints the runs of a configuration, or all runs."""
    config = os.path.abspath(config_file) if config_file is not None else None
    runs = list_runs(state_home, config, lambda error: click.echo(printable(f"! {error}"), err=True))
    if wants_json:
        click.echo(json.dumps([{**asdict(run), "resumable": not run.is_over} for run in runs], indent=1))
        return
    if not runs:
        click.echo("There are no runs yet.", err=True)
    for run in runs:
        click.echo(_run_line(run))


def _run_line(run: KnownRun) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began))
    task = printable(" ".join(run.task.split()))
    short = task if len(task) <= _SHOWN_TASK else f"{task[:_SHOWN_TASK]}..."
    return f"{run.run[:_SHORT]}  {when}  {_ending_text(run)}  {printable(run.config)}  {short}"


def _ending_text(run: KnownRun) -> str:
    """Returns how a run ended, with the winner."""
    ended = run.ended or "not ended"
    if not run.winner:
        return ended
    joined = {EndReason.ANSWERED.value: " by ", EndReason.CONSENSUS.value: " for "}.get(ended, ", best answer: ")
    return f"{ended}{joined}{run.winner}"
