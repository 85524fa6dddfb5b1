"""Putting a question of the policy to whoever sits at the terminal."""

from __future__ import annotations

import asyncio
import sys

import click

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import Asker, ask_nobody


def terminal_asker() -> Asker:
    """Asks on the terminal, where there is one."""
    return _ask if sys.stdin.isatty() else ask_nobody


async def _ask(action: Action, decision: Decision) -> bool:  # noqa: ARG001 - the Asker contract
    return await asyncio.to_thread(click.confirm, f"{decision.reason} Allow it?", err=True)
