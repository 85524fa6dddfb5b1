"""Words that a command is given as an argument, or, for `-`, on standard input."""

from __future__ import annotations

import sys

import click

_STDIN = "-"


def read_text_argument(given: str, argument: str) -> str:
    """Raises BadParameter, for the argument of that name, where standard input is no text."""
    if given != _STDIN:
        return given
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"standard input is no text: {error}.", param_hint=f"'{argument}'") from None
