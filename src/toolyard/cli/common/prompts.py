"""Prompts at the terminal: approvals for the policy, and sign-ins at servers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import click

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import ApprovalCallback, deny_without_asking
from toolyard.core.text import printable


def terminal_asker() -> ApprovalCallback:
    """Returns a prompt for approvals; without a terminal, one that denies."""
    return _ask if sys.stdin.isatty() else deny_without_asking


class SignInPrompt:
    """Prints the address to sign in at. `show` can be replaced while a progress display is drawn."""

    def __init__(self) -> None:
        self.show: Callable[[str], None] = lambda text: click.echo(text, err=True)

    def __call__(self, server: str, url: str) -> None:
        self.show(
            f"{printable(server)} requires you to sign in. Open this address in a browser on this machine:\n"
            f"{printable(url)}"
        )


def terminal_sign_in_prompt() -> SignInPrompt | None:
    """Returns a prompt; None without a terminal, where a required sign-in fails with an error."""
    return SignInPrompt() if sys.stderr.isatty() else None


async def _ask(action: Action, decision: Decision) -> bool:  # noqa: ARG001 - the Asker contract
    return await asyncio.to_thread(click.confirm, f"{decision.reason} Allow it?", err=True)
