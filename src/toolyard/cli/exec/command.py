"""`toolyard exec`: run Python or a shell command in a workspace's sandbox, as an agent's code would run.

Exit codes: that of the code; 1 it raised, 2 wrong usage, 124 timeout, 126 refused, 130 interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from dataclasses import replace
from typing import Any

import click

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option
from toolyard.cli.common.prompts import terminal_asker
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.exec import fork as exec_fork
from toolyard.config.models import Config
from toolyard.core.calls import Call, Image, Result, Text
from toolyard.core.errors import SecurityError
from toolyard.core.permission_modes import PermissionMode
from toolyard.core.text import printable
from toolyard.sandbox.output_capture import OutputCapture
from toolyard.sandbox.spec import Stream

_TIMED_OUT, _REFUSED, _INTERRUPTED = 124, 126, 130
_WHOLE_OUTPUT_CHARS = 1 << 30  # output is truncated for models only
_MS = 1_000
_EXAMPLES = """\b
Examples:
  toolyard exec -c '1 + 1'
  toolyard exec script.py --workspace ~/project
  echo 'import asyncio; await asyncio.sleep(1)' | toolyard exec -
  toolyard exec --bash - < build.sh
  toolyard exec plot.py --images .
  toolyard exec --bash -c 'git log --oneline | head -3' --json
  toolyard exec --bash -c 'make clean' --fork
"""


@click.command(name="exec", epilog=_EXAMPLES)
@click.argument("file", required=False)
@click.option("-c", "code", metavar="CODE", help="The code itself.")
@click.option("--bash", "as_bash", is_flag=True, help="Run a shell command instead of Python.")
@click.option("--timeout", metavar="S", type=click.FloatRange(min=0.001), help="Seconds.  [default: 120]")
@config_option()
@workspace_option()
@click.option("--permission-mode", type=click.Choice([m.value for m in PermissionMode]), help="[default: strict]")
@agent_option("The agent of the configuration to run as.")
@state_option("The folder for the audit log, outside every workspace.")
@click.option("--images", metavar="DIR", help="Save figures and images in this folder, as image-1.png and so on.")
@exec_fork.fork_option()
@exec_fork.keep_option()
@click.option("--json", "wants_json", is_flag=True, help="Print the result as JSON.")
def exec(  # noqa: A001 - the name of the command
    *,
    file: str | None,
    code: str | None,
    as_bash: bool,
    timeout: float | None,
    config_file: str | None,
    workspace: str | None,
    permission_mode: str | None,
    agent: str | None,
    state: str | None,
    images: str | None,
    fork: str | None,
    keep: bool,
    wants_json: bool,
) -> None:
    """Run Python, or a shell command with --bash, in the sandbox: from FILE, from stdin (-), or from -c.

    It runs in the workspace, without input and arguments; its output is printed at the end.
    """
    exec_fork.check_fork_options(fork, keep=keep, has_code=code is not None or file is not None)
    if (code is None) == (file is None):
        raise click.UsageError("Give either FILE (- for stdin) or -c CODE.")
    text = code if code is not None else _read_code(file or "-")
    if not text:
        raise click.UsageError(
            f"There is nothing to run: {'CODE' if code is not None else _source_name(file)} is empty."
        )
    resolved = resolve_workspace(workspace, config_file, agent, acts_as_agent=True)
    options = YardOptions(
        workspace=resolved.workspace,
        config=_with_uncut_output(resolved.config),
        mode=PermissionMode(permission_mode) if permission_mode else None,
        agent=agent,
        toolset=Toolset.CODE,
        state_home=state,
    )
    arguments: dict[str, Any] = {"command" if as_bash else "code": text}
    if timeout is not None:
        arguments["timeout"] = _milliseconds(timeout, resolved.config.toolyard.code_execution.limits.most_seconds)
    tool = "execute_bash" if as_bash else "execute_python"
    if images is not None:
        _make_folder(images)  # before the run, so that no images are lost
    with contextlib.ExitStack() as stack:
        forked = stack.enter_context(exec_fork.open_fork(options, fork)) if fork is not None else None
        result = _run_in_yard(forked.options if forked is not None else options, tool, arguments)
        ended = exec_fork.end_fork(forked, keep=keep) if forked is not None else None
    _save_images(result, images)
    if wants_json:
        click.echo(json.dumps({**result.structured, **({"fork": ended.fields()} if ended else {})}, indent=2))
    else:
        _print_result(result)
    if ended is not None:
        exec_fork.print_fork_result(ended)
    sys.exit(_TIMED_OUT if result.structured["ending"] == "timeout" else result.structured["exit_code"])


def _read_code(name: str) -> str:
    try:
        with click.open_file(name, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise click.UsageError(
            f"{_source_name(name)} cannot be read: {error.strerror}. To pass the code itself, use -c."
        ) from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{_source_name(name)} is not UTF-8 text.") from None


def _source_name(file: str | None) -> str:
    return "standard input" if file == "-" else str(file)


def _milliseconds(seconds: float, most: float) -> int:
    """Converts to the tools' unit. A value that they would refuse is refused here, in the user's unit."""
    if not seconds <= most:  # also refuses NaN
        raise click.BadParameter(
            f"{seconds:g} exceeds the limit of {most:g} seconds for a run. To allow more, set"
            " `code_execution: {limits: {most_seconds: ...}}` in the configuration.",
            param_hint="'--timeout'",
        )
    return max(int(seconds * _MS), 1)


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"the folder {folder} cannot be created: {error.strerror}.", param_hint="'--images'"
        ) from None


def _with_uncut_output(config: Config) -> Config:
    """Returns the configuration without truncation and without `in_context_tools`, which are for models."""
    limits = config.limits.model_copy(update={"output_chars": _WHOLE_OUTPUT_CHARS})
    section = config.toolyard.model_copy(update={"in_context_tools": {}})
    return config.model_copy(update={"limits": limits, "toolyard": section})


def _save_images(result: Result, folder: str | None) -> None:
    pictures = [part for part in result.parts if isinstance(part, Image)]
    if folder is None:
        if pictures:
            click.echo(f"[{len(pictures)} image(s); --images DIR saves them]", err=True)
        return
    for number, picture in enumerate(pictures, start=1):
        with open(os.path.join(folder, f"image-{number}.{picture.media_type.rpartition('/')[2]}"), "wb") as file:
            file.write(picture.data)


def _run_in_yard(options: YardOptions, tool: str, arguments: dict[str, Any]) -> Result:
    with Yard.open(options) as yard:
        try:
            return _call_tool(yard, tool, arguments)
        except SecurityError as error:
            click.echo(f"toolyard: {complete_commands(str(error))}", err=True)
            sys.exit(_REFUSED)


def _call_tool(yard: Yard, tool: str, arguments: dict[str, Any]) -> Result:
    """Runs the call; returns its result, or the output so far if the user interrupts."""
    so_far = OutputCapture()
    call = Call(
        tool,
        arguments,
        surface="cli",
        agent=yard.agent,
        ask=terminal_asker(),
        on_output=lambda stream, data: so_far.append(Stream(stream), data),
        warn=lambda text: click.echo(f"toolyard: {printable(text)}", err=True),
    )
    try:
        return _with_full_output(asyncio.run(yard.dispatch(call)), so_far)
    except KeyboardInterrupt:
        fields = {stream.value: so_far.text(stream) for stream in Stream}
        notes = ["Interrupted; this is the output so far."]
        return Result((), {**fields, "exit_code": _INTERRUPTED, "ending": "cancelled", "notes": notes})


def _with_full_output(result: Result, printed: OutputCapture) -> Result:
    """Returns the result with the complete output instead of the preview for models."""
    if "output_file" not in result.structured:
        return result
    return replace(
        result, structured={**result.structured, **{stream.value: printed.text(stream) for stream in Stream}}
    )


def _print_result(result: Result) -> None:
    """Prints the output as the code wrote it, then the value, the error and the notes."""
    fields = result.structured
    click.echo(fields["stdout"], nl=False)
    click.echo(fields["stderr"], nl=False, err=True)
    if fields.get("error"):
        click.echo(complete_commands(fields["error"]), err=True)
    if fields.get("value") is not None:
        click.echo(fields["value"])
    for note in fields["notes"]:
        click.echo(f"[{note}]", err=True)
    for part in result.parts[1:]:  # notes such as ignore files and failed snapshots
        if isinstance(part, Text):
            click.echo(printable(complete_commands(part.text)), err=True)
