"""`toolyard drive`: hand a prompt to an agent CLI that has our tools for a workspace, and show its work.

Exit codes: 0 succeeded, 1 failed, 2 wrong usage, 3 it ran without our tools, 124 timed out, 130 cancelled. The
command owns the run: SIGINT, SIGTERM, SIGHUP and a closed output pipe cancel it, and everything that the run started
ends with this process.
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
Exit codes: 0 succeeded, 1 failed, 2 wrong usage, 3 it ran without our tools, 124 timed out, 130 cancelled.
"""


def _check_timeout(context: click.Context, option: click.Parameter, value: float) -> float:
    del context, option
    if not 0 < value <= MAX_TIMEOUT:  # also refuses NaN
        raise click.BadParameter(f"{value:g} is not between 0 and {MAX_TIMEOUT:,.0f} seconds.")
    return value


@click.command(epilog=_EXAMPLES)
@click.argument("cli", type=NameChoice([*DRIVERS]))
@click.argument("prompt")
@workspace_option("The folder to work on.  [default: the current folder]")
@click.option("--model", metavar="M", default="", help="The model, as the CLI names it.  [default: the CLI's own]")
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
    help="Maximum duration in seconds.",
)
@click.option("--instructions", metavar="TEXT", default="", help="Added to the CLI's system prompt.")
@config_option()
@agent_option("The agent of the configuration to work as.")
@state_option("The folder for audit log and snapshots, outside every workspace.")
@click.option("--json", "wants_json", is_flag=True, help="Print each message as one line of JSON.")
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
    """Hand PROMPT (- for stdin) to an agent CLI that has only our tools for a workspace.

    The CLI's own tools are disabled. Its settings are not changed: the run uses temporary ones. Approvals are
    requested on the terminal. Ctrl-C cancels.
    """
    prompt_text = _read_prompt(prompt)
    resolved = resolve_workspace(workspace, config_file, agent, acts_as_agent=True)
    mode = PermissionMode(permission_mode) if permission_mode else None
    _warn_unreachable_servers(resolved, tools)
    settings = Settings.from_environment()
    if runs_code(tools_of(tools).values(), select_agent(resolved.config, agent)):
        policy = policy_for(resolved.config, settings, os.path.realpath(resolved.workspace), mode, agent)
        check_sandbox(resolved.config.toolyard.code_execution, settings, policy.mode)
    about = DriveInfo(DRIVERS[cli].title, os.path.realpath(resolved.workspace), settings)
    with contextlib.closing(display_for(about, wants_json=wants_json)) as display:
        run = driven(
            cli,
            prompt_text,
            workspace=resolved.workspace,
            model=model,
            timeout=timeout,
            mode=mode,
            tools=tools,
            instructions=instructions,
            config=resolved.config,
            agent=agent,
            state=state,
            ask=make_asker(display.pause),
        )
        try:
            finished = asyncio.run(_show_run(run, display))
        except BrokenPipeError:
            if not silence_broken_pipe():
                raise
            sys.exit(EXIT_CODES[Status.CANCELLED])  # the run was cut short
        if not wants_json and finished.exit_code is not None:
            options = YardOptions(
                workspace=resolved.workspace, config=resolved.config, mode=mode, agent=agent, state_home=state
            )
            with contextlib.suppress(KeyboardInterrupt):
                display.show_changes(changes_of(options, finished))
    sys.exit(EXIT_CODES[finished.status])


async def _show_run(run: CliRun, display: DriveDisplay) -> Finished:
    """Shows a run until it ends. Raises OSError if the output is closed; the run has ended then."""
    ended: Finished | None = None

    def cancel_run() -> None:
        run.cancel()
        display.show_cancelling()

    refresh = asyncio.create_task(_refresh_display(run, display))
    try:
        with handle_signals(cancel_run, display.close, EXIT_CODES[Status.CANCELLED]), stop_on_broken_pipe(run.cancel):
            async with run:
                async for message in run:
                    display.show(message)
                    if isinstance(message, Finished):
                        ended = message
    finally:
        refresh.cancel()
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


def _read_prompt(prompt: str) -> str:
    prompt = read_text_argument(prompt, "PROMPT")
    if not prompt.strip():
        raise click.BadParameter("the prompt is empty.", param_hint="'PROMPT'")
    return prompt


def _warn_unreachable_servers(resolved: ResolvedWorkspace, tools: Toolsets) -> None:
    if resolved.config.has_servers and not has_code_mode(tools):
        named = ",".join(sets_of(tools))
        click.echo(
            f"MCP servers are configured, but --tools {named} does not reach them; --tools code does.", err=True
        )
