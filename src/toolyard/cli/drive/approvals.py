"""Asks the user at the terminal for approvals while a run goes on.

The event loop reads the answer, not a thread: a run that ends or is interrupted leaves no thread waiting for input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Callable

import click

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import ApprovalCallback
from toolyard.core.text import printable

_YES = frozenset({"y", "yes"})
_LONGEST_ANSWER = 1024
_LONGEST_CODE = 2000


PauseDisplay = Callable[[], contextlib.AbstractContextManager[None]]


def make_asker(pause: PauseDisplay) -> ApprovalCallback | None:
    """Returns a prompt that asks one question at a time; `pause` stops the display. None without a terminal."""
    askers = make_askers(pause)
    return askers("") if askers is not None else None


def make_askers(pause: PauseDisplay) -> Callable[[str], ApprovalCallback] | None:
    """Returns a factory of prompts for several agents: one question at a time, each with the agent's name."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    turn = asyncio.Lock()

    def asker(agent: str) -> ApprovalCallback:
        async def ask(action: Action, decision: Decision) -> bool:
            async with turn:
                with pause():
                    return await _ask_user(action, decision, agent)

        return ask

    return asker


async def _ask_user(action: Action, decision: Decision, agent: str) -> bool:
    terminal = sys.stdin.fileno()
    with contextlib.suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)  # discards input typed before the question
    code = action.command or action.code or ""
    for line in code[:_LONGEST_CODE].splitlines():
        click.echo(f"  {printable(line)}", err=True)
    if len(code) > _LONGEST_CODE:
        click.echo(f"  … and {len(code) - _LONGEST_CODE:,} characters not shown", err=True)
    question = click.style("?", fg="yellow", bold=True)
    who = f"{printable(agent)}: " if agent else ""
    click.echo(f"{question} {who}{printable(decision.reason)}\n  Allow it? [y/N] ", nl=False, err=True)
    answer = await _read_line(terminal)
    return answer.strip().lower() in _YES


async def _read_line(terminal: int) -> str:
    """Returns the typed line; empty if the terminal has gone."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        try:
            data = os.read(terminal, _LONGEST_ANSWER)
        except OSError:
            data = b""
        if not typed.done():
            typed.set_result(data.decode("utf-8", "replace"))

    loop.add_reader(terminal, read)
    try:
        return await typed
    except asyncio.CancelledError:
        click.echo(err=True)
        raise
    finally:
        loop.remove_reader(terminal)
