"""What whoever sits at the terminal is asked: a question of the policy, or to sign in at a server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import click

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import ApprovalCallback, deny_without_asking
from toolyard.core.text import printable


def terminal_asker() -> ApprovalCallback:
    """Asks on the terminal, where there is one."""
    return _ask if sys.stdin.isatty() else deny_without_asking


class SignInPrompt:
    """Shows the address to sign in at, on the terminal. `show` may be replaced while something else is drawn there."""

    def __init__(self) -> None:
        self.show: Callable[[str], None] = lambda text: click.echo(text, err=True)

    def __call__(self, server: str, url: str) -> None:
        self.show(
            f"{printable(server)} wants you to sign in. Open this in a browser on this machine:\n{printable(url)}"
        )


def terminal_sign_in_prompt() -> SignInPrompt | None:
    """None where nobody sits at a terminal: what wants a sign-in then fails, and says so."""
    return SignInPrompt() if sys.stderr.isatty() else None


async def _ask(action: Action, decision: Decision) -> bool:  # noqa: ARG001 - the Asker contract
    return await asyncio.to_thread(click.confirm, f"{decision.reason} Allow it?", err=True)
