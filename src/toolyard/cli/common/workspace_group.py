"""Adds commands to a group that all work on one workspace, with the options that select it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import click

from toolyard.cli.common.options import agent_option, config_option, state_option, workspace_option
from toolyard.cli.common.workspace_lookup import WorkspaceOptions

Function = Callable[..., None]


class CommandDecorator(Protocol):
    """Adds a command to a group by name and examples; `who` replaces the group's help text of --agent."""

    def __call__(self, name: str, *examples: str, who: str = "") -> Callable[[Function], click.Command]: ...


def workspace_command(group: click.Group, *, who: str | None, state: str) -> CommandDecorator:
    """Returns the decorator for the commands of a group. `who` and `state` are help texts; None omits --agent.

    The decorated function gets the workspace options, whether JSON is wanted, and its own parameters.
    """
    everyones = who

    def command(name: str, *examples: str, who: str = "") -> Callable[[Function], click.Command]:
        def add_command(function: Function) -> click.Command:
            def run(
                *,
                config_file: str | None,
                workspace: str | None,
                agent: str | None = None,
                state: str | None,
                **rest: Any,
            ) -> None:
                function(WorkspaceOptions(config_file, workspace, agent, state), **rest)

            run.__doc__ = function.__doc__
            for option in (
                click.option("--json", "wants_json", is_flag=True, help="Print JSON."),
                state_option(state),
                *([agent_option(who or everyones)] if everyones is not None else []),
                workspace_option(),
                config_option(),
            ):
                run = option(run)
            # The function's own parameters come first in the help.
            own: list[click.Parameter] = getattr(function, "__click_params__", [])
            run.__click_params__ = [*getattr(run, "__click_params__", []), *own]  # pyright: ignore[reportFunctionMemberAccess]
            heading = "Example:" if len(examples) == 1 else "Examples:"
            return group.command(name=name, epilog="\n  ".join([f"\b\n{heading}", *examples]))(run)

        return add_command

    return command
