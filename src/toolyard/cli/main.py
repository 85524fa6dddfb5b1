"""The `toolyard` command group. Commands are imported when they are used, so that `--help` and `mcp` start fast."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

import click

from toolyard import __version__
from toolyard.cli.common.broken_pipe import silence_broken_pipe
from toolyard.cli.common.options import complete_commands
from toolyard.cli.common.process import OWN_PROCESS
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError, ToolyardError
from toolyard.core.fd_exhaustion import fd_exhaustion_fault

_EXAMPLES = """\b
Examples:
  toolyard mcp --workspace .     serve this folder's files to an agent over stdio
  toolyard run team.yaml "..."   let a team of agents work on a task, and vote for the best answer
  toolyard drive gemini "..."    let an agent CLI work here, with these tools and no others
  toolyard sync --config F       attach the MCP servers that F names, for code to call
  toolyard exec -c "1 + 1"       run Python in the sandbox, as an agent would
  toolyard doctor                check what works on this machine, and how to fix the rest
  toolyard audit --last 20       show what agents did here
  toolyard demo                  see an agent's session in the terminal
"""
# name: (module, what it does)
_COMMANDS = {
    "init": ("toolyard.cli.init.command", "Write a configuration, with the servers of other programs."),
    "trust": ("toolyard.cli.trust", "Let the configuration of a folder widen what agents may do."),
    "mcp": ("toolyard.cli.mcp.command", "Serve a workspace over MCP: stdio, or HTTP with --http."),
    "run": ("toolyard.cli.run.command", "Let the agents of a configuration work on a task, alone or as a team."),
    "drive": (
        "toolyard.cli.drive.command",
        "Hand a prompt to Gemini CLI, Claude Code, Codex, Qwen Code or opencode.",
    ),
    "assistant": ("toolyard.cli.assistant", "Serve a second opinion over MCP: chat, codereview, debug and more."),
    "threads": ("toolyard.cli.threads.command", "See, search, export and delete the threads of the assistant."),
    "sync": ("toolyard.cli.sync.command", "Ask the MCP servers for their tools and write the tool files."),
    "search": ("toolyard.cli.search", "Search the tools of all servers by what they do."),
    "tools": ("toolyard.cli.tools.command", "List the known tools, or show one."),
    "call": ("toolyard.cli.call", "Call one tool of a server, or a custom tool."),
    "exec": ("toolyard.cli.exec.command", "Run Python or a shell command in the sandbox."),
    "memory": ("toolyard.cli.memory.command", "See, search and correct what agents remember."),
    "skill": ("toolyard.cli.skill.command", "See, check, curate, import and export the skills of agents."),
    "snapshot": ("toolyard.cli.snapshot.command", "Take, compare and restore snapshots of a workspace."),
    "share": ("toolyard.cli.share", "See what agents share with each other, and merge it."),
    "install": ("toolyard.cli.install.command", "Add Toolyard to the MCP servers of a client's own settings."),
    "uninstall": ("toolyard.cli.install.command", "Remove Toolyard from a client's settings."),
    "audit": ("toolyard.cli.audit", "Show what was done in a workspace, or verify the log."),
    "doctor": ("toolyard.cli.doctor.command", "Check what works on this machine and what is missing."),
    "demo": ("toolyard.cli.demo", "Run an agent's edit-search-read session in the terminal."),
    "bench": ("toolyard.cli.bench", "Measure Toolyard beside its peers, in one run."),
}
FAILED = 1
_WRONG_USE = 2


class LazyGroup(click.Group):
    """A group that lists its commands by name and imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's contract
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's contract
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"{error.message} {did_you_mean(args[0], _COMMANDS)}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ToolyardError as error:
            if (fault := fd_exhaustion_fault(error)) is not None:
                raise fault from error
            error.message, error.hint = complete_commands(error.message, ctx), complete_commands(error.hint, ctx)
            raise
        except BrokenPipeError:
            if not silence_broken_pipe():
                raise
            ctx.exit()  # the reader, such as `head`, has closed the pipe
        except (OSError, ImportError) as error:
            if (fault := fd_exhaustion_fault(error) or _deleted_folder_error(error)) is None:
                raise
            raise fault from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


def _deleted_folder_error(error: Exception) -> ConfigError | None:
    """Returns the error for a command in a deleted current folder; None for any other error."""
    if not isinstance(error, FileNotFoundError):
        return None
    try:
        os.getcwd()
    except FileNotFoundError:
        hint = "Go to another one with `cd`, and run the command there."
        return ConfigError("The current folder no longer exists.", hint=hint)
    return None


@click.group(cls=LazyGroup, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="toolyard")
@click.pass_context
def toolyard(context: click.Context) -> None:
    """One workspace for every agent: file tools, a policy, and an audit log of every call."""
    from toolyard.config.settings import Settings  # `--help` needs none

    if Settings.from_environment().no_color:
        context.color = False  # which every command inherits


def main() -> None:
    """The entry point of the `toolyard` program."""
    try:
        _run()
    finally:
        # Only the interpreter shuts down from here: an interrupt ends it silently instead of with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run() -> None:
    try:
        toolyard(prog_name="toolyard", obj=OWN_PROCESS)
    except ToolyardError as error:
        from toolyard.core.text import printable  # the error may quote what a server sent

        message = "\n".join(map(printable, str(error).split("\n")))
        click.echo(f"toolyard: {message}", err=True)
        sys.exit(_WRONG_USE if error.kind in {"config", "validation"} else FAILED)
