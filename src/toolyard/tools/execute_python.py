"""execute_python: runs code in the sandbox, in its own process or in a session that keeps its variables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import Field

from toolyard.core.calls import Image, Part, Result, Text
from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import MIB, RunLimits
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments
from toolyard.sandbox.manager import ReadySandbox
from toolyard.sandbox.output_capture import OutputCapture, run_notes, truncate_middle
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, RunResult, Stream
from toolyard.tools.failure_hints import failure_hints

_MS = 1_000
_MAX_CODE_CHARS = 1_000_000
_MOST_IMAGES = 20
_MOST_NOTES = 20
_NOTE_CHARS = 1_000
_MAX_EXIT_CODE = 1 << 31
_IMAGE_BYTES = 5 * MIB
_MEDIA_TYPES = frozenset({"image/png", "image/jpeg"})


class PythonArguments(Arguments):
    code: Annotated[str, Field(min_length=1, max_length=_MAX_CODE_CHARS, description="Top-level await is allowed")]
    timeout: Annotated[int | None, Field(description="Milliseconds; 2 minutes when left out", ge=1)] = None
    session: Annotated[str, Field(description="Keeps variables under this name", max_length=100)] = ""
    reset: Annotated[bool, Field(description="Empty the session first")] = False


def code_timeout(arguments: PythonArguments, limits: RunLimits) -> float:
    """Returns how many seconds the code may run. Raises ValidationError if it asks for more than the limit."""
    if arguments.timeout is None:
        return limits.seconds
    seconds = arguments.timeout / _MS
    if seconds > limits.most_seconds:
        raise ValidationError.of(
            "timeout",
            f"is more than {limits.most_seconds * _MS:,.0f} milliseconds",
            hint="Do it in several calls; a session keeps the variables.",
        )
    return seconds


def execute_python(arguments: PythonArguments, ctx: CallContext) -> Result:
    """Runs the execute_python tool."""
    request = _build_request(arguments, ctx)
    ready = ctx.sandboxes.get_sandbox()
    ctx.add_audit_note(f"Sandbox: {ready.sandbox.tier}.")
    if arguments.reset:
        ready.sandbox.drop_session(arguments.session)
    captured = OutputCapture(on_output=ctx.call.on_output)
    with ctx.route_approvals_to_caller():
        outcome = ready.sandbox.run(request, captured.append, ctx.budget.cancelled)
    if outcome.ending is RunEnding.CANCELLED:
        raise ToolError("The code was stopped because its caller left.", hint="Run it again if it is needed.")
    return _build_result(arguments, captured, outcome, ready, ctx)


def _build_request(arguments: PythonArguments, ctx: CallContext) -> RunRequest:
    for name, text in (("code", arguments.code), ("session", arguments.session)):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValidationError.of(name, "is not valid Unicode", hint="Send plain UTF-8 text.") from None
    if "\0" in arguments.code:
        raise ValidationError.of("code", "contains a NUL byte", hint="Send it without the NUL byte.")
    if arguments.reset and not arguments.session:
        raise ValidationError.of("reset", "needs a session", hint="Name the session to empty.")
    seconds = code_timeout(arguments, ctx.sandboxes.limits)
    ctx.check_code(arguments.code)
    changes = ctx.change_sink(keeps_session=bool(arguments.session))
    return RunRequest(RunKind.PYTHON, arguments.code, seconds, arguments.session, changes=changes)


def _build_result(
    arguments: PythonArguments, captured: OutputCapture, outcome: RunResult, ready: ReadySandbox, ctx: CallContext
) -> Result:
    answer = _CodeAnswer(outcome.value or {}, ctx.limits.output_chars)
    if answer.skills:
        ctx.codemode.skill_uses.record_imports(answer.skills)
    # Without an answer the process ended early: a crash, os._exit or a kill.
    exit_code = answer.exit_code if outcome.value is not None else outcome.exit_code
    notes = [*answer.notes, *run_notes(outcome, ctx.sandboxes.limits), *ctx.sandboxes.pop_refused_host_notes()]
    if exit_code or answer.error or outcome.hit_process_limit:
        notes += failure_hints(f"{captured.text(Stream.ERR)}\n{answer.error}", outcome, ready, ctx)
    if exit_code:
        ctx.add_audit_note(f"Exit code {exit_code}.")
    if outcome.value is None and outcome.ending is RunEnding.FINISHED and not notes:
        notes.append(f"The process ended with code {outcome.exit_code} before the code was done.")
    if arguments.session and outcome.value is None and outcome.ending is not RunEnding.BUSY:
        notes.append(f"The session {arguments.session} ended with it; its variables are gone.")
    elif arguments.session and outcome.session_is_new and not arguments.reset:
        notes.append(f"The session {arguments.session} is new.")
    name = f"python-{ctx.call.id}"
    shown, saved = captured.preview(ctx.mounts, name, ctx.limits, writable=ready.spec.writable)
    pieces = [shown[Stream.OUT].rstrip("\n"), shown[Stream.ERR].rstrip("\n"), answer.error.rstrip("\n"), answer.value]
    if exit_code and not answer.error:
        pieces.append(f"Exit code {exit_code}")
    notes += [ready.note] if ready.note else []
    pieces += [f"[{note}]" for note in notes]
    text = "\n".join(piece for piece in pieces if piece) or "(no output)"
    structured: dict[str, Any] = {
        "stdout": shown[Stream.OUT],
        "stderr": shown[Stream.ERR],
        "value": answer.value or None,
        "error": answer.error or None,
        "exit_code": exit_code,
        "ending": outcome.ending.value,
        "notes": notes,
        "images": len(answer.images),
        "sandbox": ready.sandbox.tier.value,
    }
    if saved:
        structured["output_file"] = saved
    parts: tuple[Part, ...] = (Text(text), *answer.images)
    failed = exit_code != 0 or bool(answer.error) or outcome.ending is not RunEnding.FINISHED
    return Result(parts, structured, failed=failed)


class _CodeAnswer:
    """The answer from inside the sandbox. Each part is validated, because the code may have forged it."""

    def __init__(self, raw: Mapping[str, object], max_chars: int) -> None:
        """Each text is cut to `max_chars`."""
        self.value = truncate_middle(_string(raw.get("value")), max_chars)
        self.error = truncate_middle(_string(raw.get("error")), max_chars)
        code = raw.get("exit_code")
        self.exit_code = code if type(code) is int and abs(code) <= _MAX_EXIT_CODE else 0
        notes = (_string(note)[:_NOTE_CHARS] for note in _list(raw.get("notes"))[:_MOST_NOTES])
        self.notes = [note for note in notes if note]
        images = (_image(entry) for entry in _list(raw.get("images"))[:_MOST_IMAGES])
        self.images = [image for image in images if image is not None]
        self.skills = _list(raw.get("skills"))


def _string(value: object) -> str:
    # JSON can contain a lone surrogate, which UTF-8 cannot encode.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _image(entry: object) -> Image | None:
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, object]", entry)
    kind, encoded = _string(fields.get("media_type")), _string(fields.get("data"))
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError:
        return None
    return Image(data, kind) if kind in _MEDIA_TYPES and 0 < len(data) <= _IMAGE_BYTES else None
