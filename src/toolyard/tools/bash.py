"""Bash, BashOutput and KillShell: shell commands in the workspace's sandbox, in the foreground or the background."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.core.calls import Result, Text
from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.limits import RunLimits
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments
from toolyard.policy.command_rules import analyse_command
from toolyard.sandbox.background_commands import BackgroundCommand
from toolyard.sandbox.manager import ReadySandbox, display_folder
from toolyard.sandbox.output_capture import OutputCapture, run_notes
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, RunResult, Stream, Tier
from toolyard.tools.failure_hints import failure_hints

_MS = 1_000
_MAX_COMMAND_CHARS = 200_000
_FILTER_SECONDS = 5.0
_TRIAL_SECONDS = 10.0
_BACKGROUND_HINT = "Use run_in_background for what takes longer."
_CANNOT_START = "The run cannot start in "  # what the sandbox's shell prints if the folder does not exist


class CommandArguments(Arguments):
    command: Annotated[str, Field(min_length=1, max_length=_MAX_COMMAND_CHARS)]
    timeout: Annotated[int | None, Field(description="Milliseconds; 2 minutes when left out", ge=1)] = None
    description: Annotated[str, Field(description="What it does, in a few words")] = ""
    # Not shown to models: clients know it from Claude Code, and it is refused with a reason.
    disable_sandbox: SkipJsonSchema[Annotated[bool, Field(alias="dangerouslyDisableSandbox")]] = False


class BashArguments(CommandArguments):
    run_in_background: Annotated[bool, Field(description="Returns an id for BashOutput and KillShell")] = False


class BashOutputArguments(Arguments):
    bash_id: str
    filter: Annotated[str | None, Field(description="Regular expression; only lines that match are shown")] = None


class KillShellArguments(Arguments):
    shell_id: str


def command_timeout(arguments: CommandArguments, limits: RunLimits) -> float:
    """Returns how many seconds the command may run. Raises ValidationError if it asks for more than the limit."""
    if arguments.timeout is None:
        return limits.seconds
    seconds = arguments.timeout / _MS
    if seconds > limits.most_seconds:
        raise ValidationError.of(
            "timeout",
            f"is more than {limits.most_seconds * _MS:,.0f} milliseconds",
            hint=_BACKGROUND_HINT if isinstance(arguments, BashArguments) else "",
        )
    return seconds


def bash(arguments: CommandArguments, ctx: CallContext) -> Result:
    """Runs the Bash tool."""
    request = _build_request(arguments, ctx)
    ready = ctx.sandboxes.get_sandbox()
    ctx.add_audit_note(f"Sandbox: {ready.sandbox.tier}.")
    if isinstance(arguments, BashArguments) and arguments.run_in_background:
        return _start_in_background(request, ready, ctx)
    notes: list[str] = []
    captured, outcome = _run_request(request, ready, ctx)
    if _could_not_start(request, captured, outcome):
        notes.append(f"{request.folder} no longer exists, so this ran in the workspace.")
        captured, outcome = _run_request(replace(request, folder=""), ready, ctx)
    if outcome.ending is RunEnding.CANCELLED:
        raise ToolError("The command was stopped because its caller left.", hint="Run it again if it is needed.")
    folder = ctx.sandboxes.set_session_folder(ctx.call.session, outcome.folder)
    return _build_result(arguments.command, captured, replace(outcome, folder=folder), ready, ctx, notes=notes)


def _start_in_background(request: RunRequest, ready: ReadySandbox, ctx: CallContext) -> Result:
    text = ""
    if request.folder:  # its start cannot be observed later, so test the folder first
        trial = replace(request, code=":", seconds=_TRIAL_SECONDS)
        if _could_not_start(trial, *_run_request(trial, ready, ctx)):
            text = f"[{request.folder} no longer exists, so this runs in the workspace.]\n"
            request = replace(request, folder="")

    def on_ended(_: BackgroundCommand) -> None:
        ctx.end_changes()
        ctx.after_write()

    ctx.services.background_sessions.add(ctx.call.session)
    shell = ctx.sandboxes.background_commands.start(ready.sandbox, request, on_ended, ctx.call.session)
    ctx.continues_in_background = True
    text += (
        f"Running in the background as {shell.id}. A later result says when it has ended. "
        "Read its output with BashOutput, end it with KillShell."
    )
    return Result((Text(_with_note(text, ready)),), {"shell_id": shell.id, "sandbox": ready.sandbox.tier.value})


def _run_request(request: RunRequest, ready: ReadySandbox, ctx: CallContext) -> tuple[OutputCapture, RunResult]:
    captured = OutputCapture(on_output=ctx.call.on_output)
    with ctx.route_approvals_to_caller():
        return captured, ready.sandbox.run(request, captured.append, ctx.budget.cancelled)


def _could_not_start(request: RunRequest, captured: OutputCapture, outcome: RunResult) -> bool:
    """Whether the folder has vanished since the last command. A command that fakes this is only run once more."""
    if not request.folder or not outcome.exit_code or outcome.folder or captured.text(Stream.OUT):
        return False
    return captured.text(Stream.ERR).startswith(f"{_CANNOT_START}{display_folder(request.folder)}:")


def _build_request(arguments: CommandArguments, ctx: CallContext) -> RunRequest:
    if "\0" in arguments.command:
        raise ValidationError.of("command", "contains a NUL byte", hint="Send it without the NUL byte.")
    try:
        arguments.command.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError.of("command", "is not valid Unicode", hint="Send plain UTF-8 text.") from None
    if arguments.disable_sandbox and ctx.sandboxes.is_sandboxed:
        raise SecurityError(
            "dangerouslyDisableSandbox is refused: a call cannot leave the sandbox, only the user can, by the "
            "configuration (`code_execution.mode`).",
            hint="Run the command without it, or tell the user what it needs outside the sandbox.",
        )
    seconds = command_timeout(arguments, ctx.sandboxes.limits)
    folder = ctx.sandboxes.session_folder(ctx.call.session)
    ctx.check_command(arguments.command, folder)
    if ctx.services.policy.mode is not PermissionMode.BYPASS:
        found = analyse_command(arguments.command)
        if found.refusal is not None:
            raise ToolError(found.refusal, hint=found.hint or "")
    return RunRequest(RunKind.COMMAND, arguments.command, seconds, folder=folder, changes=ctx.change_sink())


def _build_result(
    command: str,
    captured: OutputCapture,
    outcome: RunResult,
    ready: ReadySandbox,
    ctx: CallContext,
    *,
    notes: list[str],
) -> Result:
    notes += [*run_notes(outcome, ctx.sandboxes.limits), *ctx.sandboxes.pop_refused_host_notes()]
    if outcome.exit_code or outcome.hit_process_limit:
        notes += failure_hints(captured.text(Stream.ERR), outcome, ready, ctx)
    if outcome.exit_code:
        ctx.add_audit_note(f"Exit code {outcome.exit_code}.")
    offline = not ready.spec.allowed_hosts and ready.sandbox.tier is not Tier.NONE
    if outcome.exit_code and offline and analyse_command(command).uses_network:
        notes.append("The sandbox has no network. (The user can name hosts in `code_execution.allowed_hosts`.)")
    name = f"bash-{ctx.call.id}"
    shown, saved = captured.preview(ctx.mounts, name, ctx.limits, writable=ready.spec.writable)
    parts = [shown[Stream.OUT].rstrip("\n"), shown[Stream.ERR].rstrip("\n")]
    if outcome.exit_code:
        parts.append(f"Exit code {outcome.exit_code}")
    parts += [f"[{note}]" for note in notes]
    text = "\n".join(part for part in parts if part) or "(no output)"
    structured: dict[str, Any] = {
        "stdout": shown[Stream.OUT],
        "stderr": shown[Stream.ERR],
        "exit_code": outcome.exit_code,
        "ending": outcome.ending.value,
        "notes": [*notes, ready.note] if ready.note else notes,
        "sandbox": ready.sandbox.tier.value,
    }
    if saved:
        structured["output_file"] = saved
    if outcome.folder:
        structured["folder"] = display_folder(outcome.folder)
    failed = outcome.exit_code != 0 or outcome.ending is not RunEnding.FINISHED
    return Result((Text(_with_note(text, ready)),), structured, failed=failed)


def _with_note(text: str, ready: ReadySandbox) -> str:
    return f"{text}\n[{ready.note}]" if ready.note else text


def bash_output(arguments: BashOutputArguments, ctx: CallContext) -> Result:
    """Runs the BashOutput tool."""
    shell = ctx.sandboxes.background_commands.get(arguments.bash_id)
    news = shell.pop_output()
    captured = OutputCapture(news.output)
    try:
        if arguments.filter is not None:
            captured = _filtered_output(captured, arguments.filter, ctx)
        name, writable = f"bash-{ctx.call.id}", ctx.sandboxes.current_sandbox().spec.writable
        shown, saved = captured.preview(ctx.mounts, name, ctx.limits, writable=writable)
    except BaseException:
        shell.restore_output(news)
        raise
    status = shell.status(news.outcome)
    shell.end_reported |= news.outcome is not None
    parts = [shown[Stream.OUT].rstrip("\n"), shown[Stream.ERR].rstrip("\n")]
    if news.dropped:
        parts.insert(0, f"[{news.dropped:,} earlier bytes were dropped]")
    if news.outcome is not None:
        parts += [f"[{note}]" for note in run_notes(news.outcome, ctx.sandboxes.limits)]
    parts.append(f"[{status}]")
    structured: dict[str, Any] = {
        "stdout": shown[Stream.OUT],
        "stderr": shown[Stream.ERR],
        "running": news.outcome is None,
    }
    if news.outcome is not None:
        structured["exit_code"] = news.outcome.exit_code
    if saved:
        structured["output_file"] = saved
    return Result((Text("\n".join(part for part in parts if part)),), structured)


def _filtered_output(captured: OutputCapture, pattern: str, ctx: CallContext) -> OutputCapture:
    """Returns the matching lines. Runs in the sandbox, because an expression can take forever."""
    found = OutputCapture()
    texts = [captured.text(stream) for stream in Stream]
    code = (
        f"import re, sys\nfor text, stream in zip({texts!r}, (sys.stdout, sys.stderr)):\n"
        f"    for line in text.splitlines():\n        if re.search({pattern!r}, line): print(line, file=stream)"
    )
    ready = ctx.sandboxes.get_sandbox()
    outcome = ready.sandbox.run(RunRequest(RunKind.PYTHON, code, _FILTER_SECONDS), found.append, ctx.budget.cancelled)
    if outcome.ending is not RunEnding.FINISHED or (outcome.value or {}).get("status") != "ok":
        raise ValidationError.of(
            "filter", "is not a regular expression, or takes too long", hint="Send a simpler one, or none."
        )
    return found


def kill_shell(arguments: KillShellArguments, ctx: CallContext) -> Result:
    """Runs the KillShell tool."""
    shell = ctx.sandboxes.background_commands.get(arguments.shell_id)
    killed = shell.kill()
    shell.end_reported = True
    text = f"{shell.id} was killed." if killed else f"{shell.id} had ended already."
    return Result((Text(text),), {"shell_id": shell.id, "killed": killed})
