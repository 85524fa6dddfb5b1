"""`toolyard drive`: hand a prompt to an agent CLI that has our tools for a workspace, and watch it work.

Exit codes: 0 succeeded, 1 failed, 2 for wrong use, 3 it ran without our tools, 124 it took too long, 130 cancelled.
The command owns the run: SIGINT, SIGTERM, SIGHUP and a reader that went away cancel it, and whatever ends this
process ends everything that the run has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Final

import click

from toolyard.app.sandbox_preflight import check_sandbox, runs_code
from toolyard.app.toolsets import Toolsets, has_code_mode, sets_of, tools_of
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.broken_pipe import silence_broken_pipe
from toolyard.cli.common.options import agent_option, config_option, state_option, workspace_option
from toolyard.cli.common.param_types import NameChoice, parse_toolsets_option
from toolyard.cli.common.resolve_workspace import ResolvedWorkspace, resolve_workspace
from toolyard.cli.common.signals import handle_signals, stop_on_broken_pipe
from toolyard.cli.common.stdin_argument import read_text_argument
from toolyard.cli.drive.approvals import make_asker
from toolyard.cli.drive.changes import changes_of
from toolyard.cli.drive.displays import display_for
from toolyard.cli.drive.presenter import DriveDisplay, DriveInfo
from toolyard.config.agents import select_agent
from toolyard.config.settings import Settings
from toolyard.core.errors import SystemFault
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers import Finished, Status
from toolyard.drivers import drive as driven
from toolyard.drivers.options import DEFAULT_TIMEOUT, MAX_TIMEOUT
from toolyard.drivers.registry import DRIVERS
from toolyard.drivers.run import CliRun
from toolyard.policy.builder import policy_for

EXIT_CODES: Final = {
    Status.SUCCEEDED: 0,
    Status.FAILED: 1,
    Status.NOT_ATTACHED: 3,
    Status.TIMED_OUT: 124,
    Status.CANCELLED: 130,
}
_FRAME_SECONDS: Final = 0.1
_EXAMPLES: Final = """\b
Examples:
  toolyard drive gemini "Fix the failing test" --workspace ~/project
  toolyard drive claude - --workspace ~/project < task.md
  toolyard drive codex "Where is the cache cleared?" --permission-mode plan
  toolyard drive opencode "Tidy up" --model anthropic/claude-sonnet-4-5 --timeout 600
  toolyard drive qwen "Write the tests" --json | jq -r 'select(.type == "text_delta").text'

\b
Exit codes: 0 succeeded, 1 failed, 2 wrong use, 3 it ran without our tools, 124 it took too long, 130 cancelled.
"""


def _check_timeout(context: click.Context, option: click.Parameter, value: float) -> float:
    del context, option
    if not 0 < value <= MAX_TIMEOUT:  # also where it is not a number
        raise click.BadParameter(f"{value:g} is not more than 0 and at most {MAX_TIMEOUT:,.0f} seconds.")
    return value


@click.command(epilog=_EXAMPLES)
@click.argument("cli", type=NameChoice([*DRIVERS]))
@click.argument("prompt")
@workspace_option("The folder it works on.  [default: the current folder]")
@click.option("--model", metavar="M", default="", help="As the CLI names it.  [default: the CLI's own]")
@click.option("--permission-mode", type=NameChoice([m.value for m in PermissionMode]), help="[default: strict]")
@click.option(
    "--tools",
    metavar="SET,...",
    callback=parse_toolsets_option,
    default="claude",
    show_default=True,
    help="As for `toolyard mcp`.",
)
@click.option(
    "--timeout",
    metavar="S",
    type=float,
    callback=_check_timeout,
    default=DEFAULT_TIMEOUT,
    show_default=True,
    help="Seconds until it is ended.",
)
@click.option("--instructions", metavar="TEXT", default="", help="Added to the CLI's system prompt.")
@config_option()
@agent_option("Which agent of the configuration it works as.")
@state_option("Where audit log and snapshots are kept, outside every workspace.")
@click.option("--json", "wants_json", is_flag=True, help="Print one message a line, as JSON, as they come.")
def drive(
    *,
    cli: str,
    prompt: str,
    workspace: str | None,
    model: str,
    permission_mode: str | None,
    tools: Toolsets,
    timeout: float,
    instructions: str,
    config_file: str | None,
    agent: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Hand PROMPT (- for stdin) to an agent CLI that has our tools for a workspace, and nothing else.

    The CLI's own tools are off. Its settings are not touched: it gets others, which go with the run. Where the policy
    asks, you are asked on the terminal. Ctrl-C cancels.
    """
    words = _read_prompt(prompt)
    place = resolve_workspace(workspace, config_file, agent, acts_as_agent=True)
    mode = PermissionMode(permission_mode) if permission_mode else None
    _warn_unreachable_servers(place, tools)
    settings = Settings.from_environment()
    if runs_code(tools_of(tools).values(), select_agent(place.config, agent)):
        policy = policy_for(place.config, settings, os.path.realpath(place.workspace), mode, agent)
        check_sandbox(place.config.toolyard.code_execution, settings, policy.mode)
    about = DriveInfo(DRIVERS[cli].title, os.path.realpath(place.workspace), settings)
    with contextlib.closing(display_for(about, wants_json=wants_json)) as showing:
        run = driven(
            cli,
            words,
            workspace=place.workspace,
            model=model,
            timeout=timeout,
            mode=mode,
            tools=tools,
            instructions=instructions,
            config=place.config,
            agent=agent,
            state=state,
            ask=make_asker(showing.pause),
        )
        try:
            ended = asyncio.run(_show_run(run, showing))
        except BrokenPipeError:
            if not silence_broken_pipe():
                raise
            sys.exit(EXIT_CODES[Status.CANCELLED])  # it was not let finish its work
        if not wants_json and ended.exit_code is not None:
            options = YardOptions(
                workspace=place.workspace, config=place.config, mode=mode, agent=agent, state_home=state
            )
            with contextlib.suppress(KeyboardInterrupt):
                showing.show_changes(changes_of(options, ended))
    sys.exit(EXIT_CODES[ended.status])


async def _show_run(run: CliRun, display: DriveDisplay) -> Finished:
    """Show a run to its end. Raises OSError where there is nobody left to show it to; it is over then."""
    ended: Finished | None = None

    def cancel_run() -> None:
        run.cancel()
        display.show_cancelling()

    moving = asyncio.create_task(_refresh_display(run, display))
    try:
        with handle_signals(cancel_run, display.close, EXIT_CODES[Status.CANCELLED]), stop_on_broken_pipe(run.cancel):
            async with run:
                async for message in run:
                    display.show(message)
                    if isinstance(message, Finished):
                        ended = message
    finally:
        moving.cancel()
    if ended is None:
        raise SystemFault("The run ended without a last message.")
    return ended


async def _refresh_display(run: CliRun, display: DriveDisplay) -> None:
    try:
        while True:
            await asyncio.sleep(_FRAME_SECONDS)
            display.tick()
    except OSError:  # the terminal is gone
        run.cancel()


def _read_prompt(given: str) -> str:
    given = read_text_argument(given, "PROMPT")
    if not given.strip():
        raise click.BadParameter("there is nothing to be done: it is empty.", param_hint="'PROMPT'")
    return given


def _warn_unreachable_servers(place: ResolvedWorkspace, tools: Toolsets) -> None:
    if place.config.has_servers and not has_code_mode(tools):
        named = ",".join(sets_of(tools))
        click.echo(f"MCP servers are configured, which --tools {named} does not reach; --tools code does.", err=True)
