"""The options that commands share. Their values are remembered, so that a hint can repeat them in a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

import click

_META_KEY = "toolyard.options"
_FLAGS = {"config_file": "--config", "workspace": "--workspace", "agent": "--agent", "state": "--state"}
_COMMANDS = (
    "assistant|audit|call|doctor|exec|init|install|mcp|memory|run|search|share|skill|snapshot|sync|threads|tools"
)
_COMMAND_PATTERN = re.compile(rf"`toolyard (?:{_COMMANDS})\b[^`\n]*`")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _remember_option(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Stores the value of an option in the click context."""
    if value is not None:
        context.meta.setdefault(_META_KEY, {})[option.name] = value
    return value


def config_option(help_text: str = "The configuration file.  [default: toolyard.yaml]") -> Decorator:
    """Returns the option `--config`."""
    return click.option("--config", "config_file", metavar="F", callback=_remember_option, help=help_text)


def workspace_option(help_text: str = "The workspace's folder.  [default: the current folder]") -> Decorator:
    """Returns the option `--workspace`."""
    return click.option("--workspace", metavar="DIR", callback=_remember_option, help=help_text)


def agent_option(help_text: str) -> Decorator:
    """Returns the option `--agent`."""
    return click.option("--agent", metavar="ID", callback=_remember_option, help=help_text)


def state_option(help_text: str) -> Decorator:
    """Returns the option `--state`."""
    return click.option("--state", metavar="DIR", callback=_remember_option, help=help_text)


def complete_commands(text: str, context: click.Context | None = None) -> str:
    """Adds the user's options to every `toolyard` command that `text` quotes, so that it can be run as shown.

    The author of a hint knows which command helps, but not how the user called this one.
    """
    context = context or click.get_current_context(silent=True)
    given: dict[str, str] = context.meta.get(_META_KEY, {}) if context is not None else {}
    return (
        _COMMAND_PATTERN.sub(lambda found: f"`{_complete_command(found[0].strip('`'), given)}`", text)
        if given
        else text
    )


def _complete_command(command: str, given: dict[str, str]) -> str:
    words = [command]
    for name, flag in _FLAGS.items():
        if name in given and flag not in command.split():
            words += [flag, shlex.quote(given[name])]
    return " ".join(words)
