"""`toolyard install` and `toolyard uninstall`: add or remove our entry in a client's own settings.

Exit codes: 0 done, or nothing to do; 1 the name is taken by another server; 2 a file or an option is wrong.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import cast

import click

from toolyard.app.toolsets import Toolset, parse_toolsets, sets_of
from toolyard.cli.common.options import agent_option, config_option, state_option, workspace_option
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.install.output import print_report
from toolyard.config.agents import select_agent
from toolyard.config.backends import PROVIDER_VARIABLES
from toolyard.config.clients import installer
from toolyard.config.clients.clients import CLIENTS, Scope
from toolyard.config.clients.installer import InstallTarget
from toolyard.config.loader import load_config
from toolyard.config.settings import MODEL_VARIABLE, STATE_VARIABLE, Settings
from toolyard.core.errors import ConfigError, ValidationError
from toolyard.core.permission_modes import PermissionMode

_PROGRAM = "toolyard"
_ASSISTANT = "toolyard-assistant"
_ANSWER_MARGIN_SECONDS = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SPLIT_AT_UNDERSCORES = frozenset({"gemini", "qwen"})
_INSTALL_EXAMPLES = """\b
Examples:
  toolyard install claude --workspace ~/project
  toolyard install codex --workspace ~/project --dry-run      show what would be written
  toolyard install cursor --workspace . --scope project       for everyone who opens this folder
  toolyard install gemini --config ~/toolyard.yaml --tools code
  toolyard install claude --assistant --workspace ~/project    a second opinion: chat, codereview, debug ...
"""
_UNINSTALL_EXAMPLES = """\b
Examples:
  toolyard uninstall claude
  toolyard uninstall vscode --scope project --workspace ~/project
  toolyard uninstall claude --assistant
"""


def _shared_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--json", "wants_json", is_flag=True, help="Print JSON."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing."),
        click.option("--name", help=f"The server's name in the settings.  [default: {_PROGRAM}, or {_ASSISTANT}]"),
        click.option("--assistant", is_flag=True, help="Install `toolyard assistant`, a second opinion."),
        click.option(
            "--scope",
            type=click.Choice(["user", "project"]),
            default="user",
            show_default=True,
            help="The user's settings, or those of the project in the workspace.",
        ),
        click.argument("client", type=click.Choice([*CLIENTS])),
    ):
        function = option(function)
    return function


@click.command(epilog=_INSTALL_EXAMPLES)
@_shared_options
@config_option()
@workspace_option("The folder to serve.  [default: the configuration's, else the current folder]")
@agent_option("The agent of the configuration to serve.")
@click.option("--tools", metavar="SET,...", help="As for `toolyard mcp`.  [default: claude]")
@click.option("--permission-mode", type=click.Choice([m.value for m in PermissionMode]), help="[default: strict]")
@state_option("The folder for the audit log, outside every workspace.")
@click.option("--force", is_flag=True, help="Replace another server of the same name.")
def install(
    *,
    client: str,
    config_file: str | None,
    workspace: str | None,
    agent: str | None,
    tools: str | None,
    permission_mode: str | None,
    state: str | None,
    scope: str,
    name: str | None,
    assistant: bool,
    dry_run: bool,
    wants_json: bool,
    force: bool,
) -> None:
    """Add Toolyard to the MCP servers of a client, in the client's own settings.

    The rest of the file is not changed, and a backup is written beside it. Installing again updates the entry.
    """
    if assistant and (agent or tools or permission_mode):
        raise click.UsageError("--agent, --tools and --permission-mode do not apply to --assistant.")
    folder = _workspace_folder(workspace, config_file, agent, dry_run=dry_run)
    target = _target(client, scope, name or _default_name(assistant=assistant), folder)
    sets = sets_of(parse_toolsets(tools)) if tools is not None else ()
    words = [*own_command(), "assistant" if assistant else "mcp"]
    if config_file is not None:
        words += ["--config", os.path.abspath(config_file)]
    if workspace is not None or config_file is None:
        words += ["--workspace", folder]
    if agent is not None:
        words += ["--agent", agent]
    if sets:
        words += ["--tools", ",".join(sets)]
    if permission_mode is not None:
        words += ["--permission-mode", permission_mode]
    if state is not None:
        words += ["--state", os.path.abspath(state)]
    variables = _passed_variables(target.settings) if assistant else ()
    # Without it some clients time out long before the assistant does.
    seconds = _assistant_seconds(config_file) + _ANSWER_MARGIN_SECONDS if assistant else None
    report = installer.install(
        target, tuple(words), variables=variables, tool_seconds=seconds, force=force, dry_run=dry_run
    )
    notes = [*_notes(target, sets)]
    if assistant:
        notes.append(_key_note(target))
    print_report(report, target, words=words, notes=notes, dry_run=dry_run, wants_json=wants_json)


@click.command(epilog=_UNINSTALL_EXAMPLES)
@_shared_options
@workspace_option("The project's folder, for --scope project.  [default: the current folder]")
def uninstall(
    *,
    client: str,
    workspace: str | None,
    scope: str,
    name: str | None,
    assistant: bool,
    dry_run: bool,
    wants_json: bool,
) -> None:
    """Remove Toolyard from the MCP servers of a client, with everything that was created only for it."""
    target = _target(client, scope, name or _default_name(assistant=assistant), os.path.abspath(workspace or "."))
    report = installer.uninstall(target, dry_run=dry_run)
    print_report(report, target, words=[], notes=[], dry_run=dry_run, wants_json=wants_json)


def own_command() -> list[str]:
    """Returns the command that starts this program from any folder.

    The name on the PATH is preferred if it leads here: it stays valid when the environment is created anew.
    """
    beside = os.path.join(os.path.dirname(sys.executable), _PROGRAM)
    if not os.access(beside, os.X_OK):
        return [sys.executable, "-m", _PROGRAM]
    named = shutil.which(_PROGRAM)
    if named is not None and os.path.realpath(named) == os.path.realpath(beside):
        return [os.path.abspath(named)]
    return [beside]


def _default_name(*, assistant: bool) -> str:
    return _ASSISTANT if assistant else _PROGRAM


def _passed_variables(settings: Settings) -> tuple[str, ...]:
    """Returns the variables that the assistant reads, set or not: a key may be set later."""
    return tuple(dict.fromkeys((MODEL_VARIABLE, *PROVIDER_VARIABLES, *settings.model_access, STATE_VARIABLE)))


def _assistant_seconds(config_file: str | None) -> float:
    return load_config(config_file).assistant.limits.seconds


def _key_note(target: InstallTarget) -> str:
    title, settings = target.client.title, target.settings
    found = [name for name in PROVIDER_VARIABLES if name in settings.model_access]
    found = [MODEL_VARIABLE, *found] if settings.model else found
    if found:
        verb = "reach" if len(found) > 1 else "reaches"
        return f"{', '.join(found)} {verb} it from the environment of {title}; no value was written."
    return f"set GEMINI_API_KEY (or another provider's key) where {title} is started; no key is written."


def _target(client: str, scope: str, name: str, folder: str) -> InstallTarget:
    if not _NAME.fullmatch(name):
        raise ValidationError.of(
            "name", f"{name!r} is not a valid server name", hint="Use letters, digits and hyphens."
        )
    if "_" in name and client in _SPLIT_AT_UNDERSCORES:
        problem = f"{CLIENTS[client].title} splits the names of tools at underscores"
        raise ValidationError.of("name", problem, hint=f"Use hyphens: --name {name.replace('_', '-')}")
    return InstallTarget(CLIENTS[client], cast("Scope", scope), Settings.from_environment(), folder, name)


def _workspace_folder(workspace: str | None, config_file: str | None, agent: str | None, *, dry_run: bool) -> str:
    """Returns the workspace after checking that the server could open it."""
    if config_file is not None and dry_run:
        # Resolving the workspace would create the folders that the file names.
        select_agent(load_config(config_file), agent)
        return os.path.abspath(workspace or ".")
    folder = os.path.abspath(resolve_workspace(workspace, config_file, agent, acts_as_agent=True).workspace)
    if not os.path.isdir(folder):
        raise ConfigError(f"{folder} is not a folder.", hint="Create it, or choose another one with --workspace.")
    return folder


def _notes(target: InstallTarget, sets: tuple[Toolset, ...]) -> Iterator[str]:
    title = target.client.title
    if target.scope == "project":
        if target.client.project_note:
            yield target.client.project_note
        yield "the file contains absolute paths of this machine: check it before you commit it."
    if Toolset.REFERENCE in sets and target.client.name in _SPLIT_AT_UNDERSCORES:
        yield f"{title} has its own tools with the names of `--tools reference`, and drops ours in scripts."
