"""`toolyard exec`: run Python (or a shell command) in a workspace's sandbox, the way an agent's would run.

Exit codes: that of the code; 1 when it raised, 2 for wrong use, 124 when it ran out of time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, TextIO

import click

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard, YardOptions
from toolyard.cli.opening import find_place
from toolyard.core.actions import Action, Decision
from toolyard.core.calls import Asker, Call, Result, ask_nobody
from toolyard.core.modes import PermissionMode

_TIMED_OUT = 124
_MS = 1_000
_EXAMPLES = """\b
Examples:
  toolyard exec -c '1 + 1'
  toolyard exec script.py --workspace ~/project
  echo 'await asyncio.sleep(1)' | toolyard exec -
  toolyard exec --bash -c 'git log --oneline | head -3' --json
"""


@click.command(name="exec", epilog=_EXAMPLES)
@click.argument("file", required=False, type=click.File("r"))
@click.option("-c", "code", metavar="CODE", help="The code itself.")
@click.option("--bash", "as_bash", is_flag=True, help="It is a shell command, not Python.")
@click.option("--timeout", metavar="S", type=click.FloatRange(min=0.001), help="Seconds.  [default: 120]")
@click.option("--config", "config_file", metavar="F", help="The configuration file.  [default: toolyard.yaml]")
@click.option("--workspace", metavar="DIR", help="The workspace's folder.  [default: the current folder]")
@click.option("--permission-mode", type=click.Choice([m.value for m in PermissionMode]), help="[default: strict]")
@click.option("--agent", metavar="ID", help="Which agent of the configuration it runs as.")
@click.option("--state", metavar="DIR", help="Where the audit log is kept, outside every workspace.")
@click.option("--json", "wants_json", is_flag=True, help="Print the result as JSON.")
def exec(  # noqa: A001 - the name of the command
    *,
    file: TextIO | None,
    code: str | None,
    as_bash: bool,
    timeout: float | None,
    config_file: str | None,
    workspace: str | None,
    permission_mode: str | None,
    agent: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Run Python in the sandbox: from FILE, from stdin (-), or from -c."""
    if (code is None) == (file is None):
        raise click.UsageError("Give either FILE (- for stdin) or -c CODE.")
    text = code if code is not None else file.read() if file is not None else ""
    place = find_place(workspace, config_file, agent)
    options = YardOptions(
        workspace=place.workspace,
        config=place.config,
        mode=PermissionMode(permission_mode) if permission_mode else None,
        agent=agent,
        toolset=Toolset.CODE,
        state_home=state,
    )
    arguments: dict[str, Any] = {"command" if as_bash else "code": text}
    if timeout is not None:
        arguments["timeout"] = max(int(timeout * _MS), 1)
    tool = "execute_bash" if as_bash else "execute_python"
    with Yard.open(options) as yard:
        call = Call(tool, arguments, surface="cli", agent=yard.agent, ask=_asker())
        result = asyncio.run(yard.dispatch(call))
    if wants_json:
        click.echo(json.dumps(result.structured, indent=2))
    else:
        _show(result)
    sys.exit(_TIMED_OUT if result.structured["ending"] == "timeout" else result.structured["exit_code"])


def _asker() -> Asker:
    return _ask if sys.stdin.isatty() else ask_nobody


async def _ask(action: Action, decision: Decision) -> bool:  # noqa: ARG001 - the Asker contract
    return await asyncio.to_thread(click.confirm, f"{decision.reason} Allow it?", err=True)


def _show(result: Result) -> None:
    """As the code itself would have printed it, then the value, the error and what there is to remark."""
    fields = result.structured
    click.echo(fields["stdout"], nl=False)
    click.echo(fields["stderr"], nl=False, err=True)
    if fields.get("error"):
        click.echo(fields["error"], err=True)
    if fields.get("value") is not None:
        click.echo(fields["value"])
    for note in fields["notes"]:
        click.echo(f"[{note}]", err=True)
