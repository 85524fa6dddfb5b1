"""`toolyard call`: call one tool of a server, the way an agent's code would.

Exit codes: 0 fine, 1 the tool or its server failed, 2 for wrong use, 126 when it was refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any, cast

import click

from toolyard.app.codemode.syncing import SyncWish, sync
from toolyard.app.codemode.upstream import UpstreamCall
from toolyard.app.yard import Yard, YardOptions
from toolyard.cli.asking import terminal_asker, terminal_sign_ins
from toolyard.cli.audit import printable
from toolyard.cli.opening import find_place
from toolyard.core.errors import SecurityError
from toolyard.core.modes import PermissionMode

FAILED, _REFUSED = 1, 126
_EXAMPLES = """\b
Examples:
  toolyard call time get_current_time --args '{"timezone": "UTC"}'
  toolyard call github search_issues --args @query.json --config team.yaml
"""


@click.command(epilog=_EXAMPLES)
@click.argument("server")
@click.argument("tool")
@click.option("--args", "arguments", metavar="JSON", default="{}", help="The arguments: JSON, or @FILE.")
@click.option("--timeout", metavar="S", type=click.FloatRange(min=0.001), help="Seconds.")
@click.option("--config", "config_file", metavar="F", help="The configuration file.  [default: toolyard.yaml]")
@click.option("--workspace", metavar="DIR", help="The workspace's folder.  [default: the current folder]")
@click.option("--permission-mode", type=click.Choice([m.value for m in PermissionMode]), help="[default: strict]")
@click.option("--agent", metavar="ID", help="Which agent of the configuration it is called as.")
@click.option("--state", metavar="DIR", help="Where catalog and audit log are kept, outside every workspace.")
def call(
    *,
    server: str,
    tool: str,
    arguments: str,
    timeout: float | None,
    config_file: str | None,
    workspace: str | None,
    permission_mode: str | None,
    agent: str | None,
    state: str | None,
) -> None:
    """Call TOOL of SERVER and print its result as JSON. The server is started when it is not running."""
    given = _parsed(arguments)
    place = find_place(workspace, config_file, agent)
    options = YardOptions(
        workspace=place.workspace,
        config=place.config,
        mode=PermissionMode(permission_mode) if permission_mode else None,
        agent=agent,
        state_home=state,
        on_authorize=terminal_sign_ins(),
    )
    with Yard.open(options) as yard:
        mode = yard.codemode
        if not mode.catalog.tool_names(server) and server in {entry.name for entry in mode.resolved.entries}:
            sync(mode, SyncWish((server,)))  # its first use: what it says now is what is pinned
        try:
            answer = mode.call(
                UpstreamCall(server, tool, given, yard.agent, "cli", terminal_asker(), timeout=timeout)
            )
        except SecurityError as error:
            click.echo(f"toolyard: {printable(str(error))}", err=True)
            sys.exit(_REFUSED)
    result: dict[str, Any] = {"content": list(answer.content), "isError": answer.is_error}
    if answer.structured is not None:
        result["structuredContent"] = answer.structured
    click.echo(_shown(result) if sys.stdout.isatty() else json.dumps(result, indent=2))
    if answer.is_error:
        sys.exit(FAILED)


def _shown(result: dict[str, Any]) -> str:
    """As JSON with letters of every script, and an escape for all that a terminal would act on."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _parsed(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        try:
            with click.open_file(text[1:], encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"{text[1:]} cannot be read: {error}", param_hint="'--args'") from None
    try:
        given: object = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"this is no JSON: {error}", param_hint="'--args'") from None
    if not isinstance(given, dict):
        raise click.BadParameter('expected an object, such as \'{"path": "a.txt"}\'', param_hint="'--args'")
    return cast("dict[str, Any]", given)
