"""`toolyard assistant`: serve a second opinion from another model."""

from __future__ import annotations

import functools
from dataclasses import replace

import click

from toolyard.app.yard_options import YardOptions
from toolyard.assistant.provider import create_assistant_provider
from toolyard.cli.common.options import config_option, state_option, workspace_option
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.common.serve import errors_option, http_options, serve
from toolyard.config.assistant import ASSISTANT_TOOLS, Assistant
from toolyard.config.settings import Settings
from toolyard.core.errors import ErrorForm
from toolyard.core.permission_modes import PermissionMode
from toolyard.models.model_names import choose_model

_EXAMPLES = """\b
Examples:
  toolyard install claude --assistant --workspace ~/project
  GEMINI_API_KEY=... toolyard assistant --workspace ~/project
  TOOLYARD_MODEL=openai-chat:llama3 OPENAI_BASE_URL=http://localhost:11434/v1 toolyard assistant
  toolyard assistant --http 127.0.0.1:8766
"""
_HTTP = "Serve HTTP instead of stdio: MCP at /mcp, plain requests at /tools and /execute (described at /docs)."


@click.command(epilog=_EXAMPLES)
@config_option()
@workspace_option("The project's folder.  [default: PROJECT_ROOT, else the current folder]")
@click.option("--model", metavar="NAME", help="provider:name, or an alias.  [default: TOOLYARD_MODEL]")
@http_options(_HTTP)
@errors_option()
@state_option("The folder for threads and the audit log, outside every workspace.")
def assistant(
    *,
    config_file: str | None,
    workspace: str | None,
    model: str | None,
    http: tuple[str, int] | None,
    allow_host: tuple[str, ...],
    errors: ErrorForm | None,
    state: str | None,
) -> None:
    """Serve chat, thinkdeep, analyze, codereview, debug and precommit over MCP: a second opinion from another model.

    The model is TOOLYARD_MODEL, else the configured one, else Gemini; its key is in the provider's own variable, such
    as GEMINI_API_KEY. The assistant reads only files inside the project and changes nothing. HTTP requires the bearer
    token in TOOLYARD_TOKEN; without one, a new token is printed once on stderr.
    """
    settings = Settings.from_environment()
    if model is not None:
        settings = replace(settings, model=model)
    resolved = resolve_workspace(workspace or settings.project_root, config_file)
    _check_models(resolved.config.assistant, settings)
    options = YardOptions(
        workspace=resolved.workspace,
        config=resolved.config,
        settings=settings,
        mode=PermissionMode.PLAN,
        tool_provider=create_assistant_provider(resolved.config, settings, resolved.workspace),
        state_home=state,
        notify=functools.partial(click.echo, err=True),
        errors=errors,
    )
    serve(options, http, allow_host)


def _check_models(assistant: Assistant, settings: Settings) -> None:
    """Raises ConfigError for unknown model names. A missing key is reported by the tools that need it."""
    if settings.model or assistant.model or assistant.models:
        for tool in ASSISTANT_TOOLS:
            choose_model(assistant, settings, tool)
