"""Commands of a group that all work on one workspace, with the options that say which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import click

from toolyard.cli.common.options import agent_option, config_option, state_option, workspace_option
from toolyard.cli.common.workspace_lookup import WorkspaceOptions

Function = Callable[..., None]


class CommandDecorator(Protocol):
    """How a command is added to a group: by name and examples, with a `who` of its own where --agent means more."""

    def __call__(self, name: str, *examples: str, who: str = "") -> Callable[[Function], click.Command]: ...


def workspace_command(group: click.Group, *, who: str | None, state: str) -> CommandDecorator:
    """For the commands of one group. `who` and `state` say what those options mean; a `who` of None leaves that out.

    The function gets a Where, whether JSON is wanted, and what it declares itself.
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
            # What the function itself declares comes first in its help.
            own: list[click.Parameter] = getattr(function, "__click_params__", [])
            run.__click_params__ = [*getattr(run, "__click_params__", []), *own]  # pyright: ignore[reportFunctionMemberAccess]
            heading = "Example:" if len(examples) == 1 else "Examples:"
            return group.command(name=name, epilog="\n  ".join([f"\b\n{heading}", *examples]))(run)

        return add_command

    return command
