"""`toolyard call`: call one tool, as an agent's code would.

Exit codes: 0 success, 1 the tool or its server failed, 2 wrong usage, 126 refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any, cast

import click

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option
from toolyard.cli.common.prompts import terminal_asker, terminal_sign_in_prompt
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.tools.names import NamedTool, ToolNames
from toolyard.codemode.schema_mismatch import add_mismatch_hint, mismatch_text, schema_mismatches
from toolyard.codemode.service import CodeMode
from toolyard.codemode.sync_report import SyncRequest, run_sync
from toolyard.codemode.upstream_caller import NotAuthorized, UpstreamCall
from toolyard.core.errors import SecurityError, SystemFault, ToolyardError
from toolyard.core.permission_modes import PermissionMode
from toolyard.core.text import printable
from toolyard.core.upstream import Json, ToolSchema, UpstreamResult

FAILED, _WRONG_USE, _REFUSED = 1, 2, 126
_STDIN = "-"
_TIMEOUT_KEY = "`timeout`"
_ALLOWED_HINT = "The configuration defines what it may call: its servers, `allowed_tools` and `exclude_tools`."
_EXAMPLES = """\b
Examples:
  toolyard call time get_current_time --args '{"timezone": "UTC"}'
  toolyard call servers.time.get_current_time --args '{"timezone": "UTC"}'
  toolyard call github.search_issues --args @query.json --config team.yaml --agent writer
  jq '{query: .q}' in.json | toolyard call github.search_issues --args -
  toolyard call tools.web.screenshot --args '{"url": "page.html", "full_page": true}'

\b
Exit codes: 0 success, 1 the tool or its server failed, 2 wrong usage (also a wrong name or argument), 126 refused.
"""


@click.command(epilog=_EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="[SERVER] TOOL")
@click.option("--args", "arguments", metavar="JSON", default="{}", help="The arguments: JSON, @FILE, or - for stdin.")
@click.option("--timeout", metavar="S", type=click.FloatRange(min=0.001), help="Seconds.")
@config_option()
@workspace_option()
@click.option("--permission-mode", type=click.Choice([m.value for m in PermissionMode]), help="[default: strict]")
@agent_option("The agent of the configuration to call it as; required if there are several.")
@state_option("The folder for catalog and audit log, outside every workspace.")
@click.option("--json", "wants_json", is_flag=True, help="Print a failure as JSON too, as results always are.")
def call(
    *,
    words: tuple[str, ...],
    arguments: str,
    timeout: float | None,
    config_file: str | None,
    workspace: str | None,
    permission_mode: str | None,
    agent: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Call a tool of a server, or a custom tool, and print its result as JSON.

    Name the tool by two words (SERVER TOOL) or by one (SERVER.TOOL, or as code imports it). The server is started if
    it is not running.
    """
    if len(words) > 2:
        raise click.UsageError("Name one tool: SERVER TOOL, or SERVER.TOOL. Its arguments go into --args.")
    parsed_arguments = _parse_arguments(arguments)
    resolved = resolve_workspace(workspace, config_file, agent, acts_as_agent=True)
    options = YardOptions(
        workspace=resolved.workspace,
        config=resolved.config,
        mode=PermissionMode(permission_mode) if permission_mode else None,
        agent=agent,
        state_home=state,
        on_authorize=terminal_sign_in_prompt(),
    )
    try:
        with Yard.open(options) as yard:
            answer = _call_tool(yard, words, parsed_arguments, timeout)
    except ToolyardError as error:
        if not wants_json and not isinstance(error, SecurityError):
            raise
        sys.exit(_report_error(error, wants_json=wants_json))
    result: dict[str, Any] = {"content": list(answer.content), "isError": answer.is_error}
    if answer.structured is not None:
        result["structuredContent"] = answer.structured
    click.echo(_json_for_terminal(result) if sys.stdout.isatty() and not wants_json else json.dumps(result, indent=2))
    if answer.is_error:
        sys.exit(FAILED)


def _call_tool(
    yard: Yard, words: tuple[str, ...], arguments: dict[str, Any], timeout: float | None
) -> UpstreamResult:
    codemode = yard.codemode
    named = _find_tool(codemode, words)
    call = UpstreamCall(
        *(named.server, named.tool, arguments, yard.agent, "cli", terminal_asker()),
        timeout=timeout,
        is_custom=named.is_custom,
    )
    if named.is_own:
        return codemode.call_own(call)
    if (known := _known_schema(codemode, named)) is not None:
        yard.before_upstream_call(call.name, known, _TerminalWaiter())
    try:
        answer = codemode.call(call)
    except ToolyardError as error:
        if isinstance(error, NotAuthorized):
            error.hint = error.hint or _ALLOWED_HINT
        elif (
            timeout is not None and _TIMEOUT_KEY in error.hint
        ):  # the hint names the entry's timeout, but --timeout applied
            error.hint = "Ask for less in one call, or allow more time with a higher `--timeout`."
        raise add_mismatch_hint(
            error, f"{named.server}.{named.tool}", schema_mismatches(_input_schema(codemode, named), arguments)
        ) from None
    for notice in yard.snapshots.notices.pop_all():
        click.echo(printable(notice), err=True)
    if answer.is_error and (found := schema_mismatches(_input_schema(codemode, named), arguments)):
        click.echo(f"toolyard: {printable(mismatch_text(f'{named.server}.{named.tool}', found))}", err=True)
    return answer


def _find_tool(codemode: CodeMode, words: tuple[str, ...]) -> NamedTool:
    names = ToolNames(codemode)
    unsynced = names.unsynced_server(words)
    if unsynced is not None:
        report = run_sync(codemode, SyncRequest((unsynced,)))  # first use: the tools it lists now are pinned
        failed = dict(report.failed).get(unsynced)
        if failed is not None:
            raise SystemFault(failed)
        names = ToolNames(codemode)
    return names.find(words)


class _TerminalWaiter:
    """Waits at the terminal for the snapshot that is taken before a change."""

    def require_thread(self) -> None:
        """Does nothing: a command may block."""

    def check_time(self) -> None:
        """Does nothing: there is no deadline, and Ctrl-C interrupts."""

    def add_result_note(self, text: str) -> None:
        click.echo(printable(text), err=True)


def _known_schema(codemode: CodeMode, named: NamedTool) -> ToolSchema | None:
    if named.is_custom:
        custom = codemode.custom.get(f"{named.server}.{named.tool}")
        return custom.schema if custom is not None else None
    known = codemode.catalog.tool(named.server, named.tool)
    return known.schema if known is not None else None


def _input_schema(codemode: CodeMode, named: NamedTool) -> Json:
    known = _known_schema(codemode, named)
    return known.input_schema if known is not None else {}


def _report_error(error: ToolyardError, *, wants_json: bool) -> int:
    """Prints an error; returns the exit code."""
    error.message, error.hint = complete_commands(error.message), complete_commands(error.hint)
    if wants_json:
        click.echo(json.dumps({"error": {"message": error.message, **error.data()}, "isError": True}, indent=2))
    else:
        click.echo(f"toolyard: {printable(str(error))}", err=True)
    if isinstance(error, SecurityError):
        return _REFUSED
    return _WRONG_USE if error.kind in {"config", "validation"} else FAILED


def _json_for_terminal(result: dict[str, Any]) -> str:
    """Returns readable JSON in which control characters are escaped."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _parse_arguments(text: str) -> dict[str, Any]:
    if text == _STDIN or text.startswith("@"):
        name = _STDIN if text == _STDIN else text[1:]
        try:
            with click.open_file(name, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            source = "standard input" if name == _STDIN else name
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise click.BadParameter(f"{source} cannot be read: {why}.", param_hint="'--args'") from None
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"this is not JSON: {error}", param_hint="'--args'") from None
    if not isinstance(value, dict):
        raise click.BadParameter('expected an object, such as \'{"path": "a.txt"}\'', param_hint="'--args'")
    return cast("dict[str, Any]", value)
