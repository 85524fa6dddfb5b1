"""Bash, BashOutput and KillShell: shell commands in the workspace's sandbox, in front or in the background."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from toolyard.core.calls import Result, Text
from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.limits import RunLimits
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.call_context import Gate
from toolyard.dispatch.tool import Arguments
from toolyard.policy.command_rules import analysed
from toolyard.sandbox.background_commands import Shell
from toolyard.sandbox.manager import Ready, shown_folder
from toolyard.sandbox.output_capture import Captured
from toolyard.sandbox.spec import Ending, Outcome, Request, Stream, Tier, What
from toolyard.tools.failure_hints import hints
from toolyard.tools.run_notes import remarks

_MS = 1_000
_MOST_CHARS = 200_000
_FILTER_SECONDS = 5.0
_TRIAL_SECONDS = 10.0
_FOR_LONGER = "Use run_in_background for what takes longer."
_CANNOT_START = "The run cannot start in "  # what the sandbox's shell says of a folder that is not there


class CommandArguments(Arguments):
    command: Annotated[str, Field(min_length=1, max_length=_MOST_CHARS)]
    timeout: Annotated[int | None, Field(description="Milliseconds; 2 minutes when left out", ge=1)] = None
    description: Annotated[str, Field(description="What it does, in a few words")] = ""
    # Not shown to models: it is known from Claude Code, and is answered with a reason.
    disable_sandbox: SkipJsonSchema[Annotated[bool, Field(alias="dangerouslyDisableSandbox")]] = False


class BashArguments(CommandArguments):
    run_in_background: Annotated[bool, Field(description="Returns an id for BashOutput and KillShell")] = False


class BashOutputArguments(Arguments):
    bash_id: str
    filter: Annotated[str | None, Field(description="Regular expression; only lines that match are shown")] = None


class KillShellArguments(Arguments):
    shell_id: str


def longest_command(arguments: CommandArguments, limits: RunLimits) -> float:
    """How long the command may run, within what the configuration lets it name."""
    if arguments.timeout is None:
        return limits.seconds
    seconds = arguments.timeout / _MS
    if seconds > limits.most_seconds:
        raise ValidationError.of(
            "timeout",
            f"is more than {limits.most_seconds * _MS:,.0f} milliseconds",
            hint=_FOR_LONGER if isinstance(arguments, BashArguments) else "",
        )
    return seconds


def bash(arguments: CommandArguments, gate: Gate) -> Result:
    request = _request(arguments, gate)
    ready = gate.sandboxes.ready()
    gate.remark(f"Sandbox: {ready.sandbox.tier}.")
    if isinstance(arguments, BashArguments) and arguments.run_in_background:
        return _in_background(request, ready, gate)
    notes: list[str] = []
    captured, outcome = _ran(request, ready, gate)
    if _could_not_start(request, captured, outcome):
        notes.append(f"{request.folder} is not there any more, so this ran in the workspace.")
        captured, outcome = _ran(replace(request, folder=""), ready, gate)
    if outcome.ending is Ending.CANCELLED:
        raise ToolError("The command was stopped because its caller left.", hint="Run it again if it is needed.")
    folder = gate.sandboxes.moved(gate.call.session, outcome.folder)
    return _told(arguments.command, captured, replace(outcome, folder=folder), ready, gate, notes=notes)


def _in_background(request: Request, ready: Ready, gate: Gate) -> Result:
    text = ""
    if request.folder:  # nobody waits for this one, so whether it can start there is found out first
        trial = replace(request, code=":", seconds=_TRIAL_SECONDS)
        if _could_not_start(trial, *_ran(trial, ready, gate)):
            text = f"[{request.folder} is not there any more, so this runs in the workspace.]\n"
            request = replace(request, folder="")

    def ended(_: Shell) -> None:
        gate.end_changes()
        gate.changed()

    shell = gate.sandboxes.shells.start(ready.sandbox, request, ended, gate.call.session)
    gate.runs_on = True
    text += (
        f"Running in the background as {shell.id}. A later result says when it has ended. "
        "Read its output with BashOutput, end it with KillShell."
    )
    return Result((Text(_with_note(text, ready)),), {"shell_id": shell.id, "sandbox": ready.sandbox.tier.value})


def _ran(request: Request, ready: Ready, gate: Gate) -> tuple[Captured, Outcome]:
    captured = Captured(also=gate.call.printed)
    with gate.questions_go_to_caller():
        return captured, ready.sandbox.run(request, captured.take, gate.cancelled)


def _could_not_start(request: Request, captured: Captured, outcome: Outcome) -> bool:
    """Whether the folder went away since the last command. A command that lies about it is only run once more."""
    if not request.folder or not outcome.exit_code or outcome.folder or captured.text(Stream.OUT):
        return False
    return captured.text(Stream.ERR).startswith(f"{_CANNOT_START}{shown_folder(request.folder)}:")


def _request(arguments: CommandArguments, gate: Gate) -> Request:
    if "\0" in arguments.command:
        raise ValidationError.of("command", "contains a NUL byte", hint="Send it without the NUL byte.")
    try:
        arguments.command.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError.of("command", "is not valid Unicode", hint="Send plain UTF-8 text.") from None
    if arguments.disable_sandbox and gate.sandboxes.has_walls:
        raise SecurityError(
            "dangerouslyDisableSandbox is refused: a call cannot leave the sandbox, only the user can, by the "
            "configuration (`code_execution.mode`).",
            hint="Run the command without it, or tell the user what it needs outside the sandbox.",
        )
    seconds = longest_command(arguments, gate.sandboxes.limits)
    folder = gate.sandboxes.folder(gate.call.session)
    gate.command(arguments.command, folder)
    if gate.resources.policy.mode is not PermissionMode.BYPASS:
        found = analysed(arguments.command)
        if found.refusal is not None:
            raise ToolError(found.refusal, hint=found.hint or "")
    return Request(What.COMMAND, arguments.command, seconds, folder=folder, changes=gate.change_sink())


def _told(
    command: str, captured: Captured, outcome: Outcome, ready: Ready, gate: Gate, *, notes: list[str]
) -> Result:
    notes += [*remarks(outcome, gate.sandboxes.limits), *gate.sandboxes.take_refused()]
    if outcome.exit_code or outcome.lacked_processes:
        notes += hints(captured.text(Stream.ERR), outcome, ready, gate)
    if outcome.exit_code:
        gate.remark(f"Exit code {outcome.exit_code}.")
    offline = not ready.spec.allowed_hosts and ready.sandbox.tier is not Tier.NONE
    if outcome.exit_code and offline and analysed(command).uses_network:
        notes.append("The sandbox has no network. (The user can name hosts in `code_execution.allowed_hosts`.)")
    name = f"bash-{gate.call.id}"
    shown, saved = captured.preview(gate.mounts, name, gate.limits, writable=ready.spec.writable)
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
        structured["folder"] = shown_folder(outcome.folder)
    failed = outcome.exit_code != 0 or outcome.ending is not Ending.FINISHED
    return Result((Text(_with_note(text, ready)),), structured, failed=failed)


def _with_note(text: str, ready: Ready) -> str:
    return f"{text}\n[{ready.note}]" if ready.note else text


def bash_output(arguments: BashOutputArguments, gate: Gate) -> Result:
    shell = gate.sandboxes.shells.get(arguments.bash_id)
    news = shell.news()
    captured = Captured(news.output)
    try:
        if arguments.filter is not None:
            captured = _matching(captured, arguments.filter, gate)
        name, writable = f"bash-{gate.call.id}", gate.sandboxes.beside().spec.writable
        shown, saved = captured.preview(gate.mounts, name, gate.limits, writable=writable)
    except BaseException:
        shell.put_back(news)
        raise
    status = shell.status(news.outcome)
    shell.is_known_to_have_ended |= news.outcome is not None
    parts = [shown[Stream.OUT].rstrip("\n"), shown[Stream.ERR].rstrip("\n")]
    if news.dropped:
        parts.insert(0, f"[{news.dropped:,} earlier bytes were dropped]")
    if news.outcome is not None:
        parts += [f"[{note}]" for note in remarks(news.outcome, gate.sandboxes.limits)]
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


def _matching(captured: Captured, pattern: str, gate: Gate) -> Captured:
    """The lines that match. In the sandbox: an expression can be written that takes for ever."""
    found = Captured()
    texts = [captured.text(stream) for stream in Stream]
    code = (
        f"import re, sys\nfor text, stream in zip({texts!r}, (sys.stdout, sys.stderr)):\n"
        f"    for line in text.splitlines():\n        if re.search({pattern!r}, line): print(line, file=stream)"
    )
    ready = gate.sandboxes.ready()
    outcome = ready.sandbox.run(Request(What.PYTHON, code, _FILTER_SECONDS), found.take, gate.cancelled)
    if outcome.ending is not Ending.FINISHED or (outcome.value or {}).get("status") != "ok":
        raise ValidationError.of(
            "filter", "is not a regular expression, or takes too long", hint="Send a simpler one, or none."
        )
    return found


def kill_shell(arguments: KillShellArguments, gate: Gate) -> Result:
    shell = gate.sandboxes.shells.get(arguments.shell_id)
    killed = shell.kill()
    shell.is_known_to_have_ended = True
    text = f"{shell.id} was killed." if killed else f"{shell.id} had ended already."
    return Result((Text(text),), {"shell_id": shell.id, "killed": killed})
