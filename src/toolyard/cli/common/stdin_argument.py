"""Reads text arguments, with `-` for standard input."""

from __future__ import annotations

import sys

import click

_STDIN = "-"


def read_text_argument(given: str, argument: str) -> str:
    """Returns the argument, or standard input for `-`. Raises BadParameter for input that is not text."""
    if given != _STDIN:
        return given
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"standard input is not UTF-8 text: {error}.", param_hint=f"'{argument}'") from None
