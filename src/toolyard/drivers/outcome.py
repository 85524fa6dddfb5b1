"""Decides how a run ended, as a pure function of what was observed.

A CLI's own report is not enough. Gemini CLI reports success without any tools, Claude Code if the provider refused
every request, and both exit with 0. A run succeeds only if our server saw it attach, it exited with 0, reported
completion and no error, and left no call unanswered.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from toolyard.drivers.clis.error_hints import error_hint
from toolyard.drivers.driver import Driver, OutputState
from toolyard.drivers.messages import Status

_SHELL_SIGNALS = {128 + number: number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)}
"""Exit codes that mean the program was ended by a signal. Others above 128 have another meaning."""
_SERVER_ERROR = re.compile(r"MCP (server|client|startup)|mcp_servers|required MCP", re.IGNORECASE)
_NOISE = re.compile(r"^(Reading additional input from stdin|Warning: 256-color|Ripgrep is not available)")
"""Lines that CLIs print to stderr in successful runs."""
_STACK_LINE = re.compile(r"^\s*at |^[^A-Za-z]*$")
_RUST_TYPES = re.compile(r" ?\[[\w:<>, ]{40,}\]")
"""Type names in error messages of Rust programs."""
_MORE_TIME = "Give it more time, or a smaller task."
_MAX_REASON = 500


class EndCause(StrEnum):
    """What ended the run."""

    OWN = "own"
    """The CLI itself, or an unknown cause."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    UNSERVED = "unserved"
    """Our server ended first, so we ended the CLI: it could not do anything without tools."""


class Verdict(NamedTuple):
    """How the run ended, why, and what to do."""

    status: Status
    reason: str = ""
    hint: str = ""


def run_verdict(
    driver: Driver,
    state: OutputState,
    exit_code: int | None,
    *,
    attached: bool,
    cause: EndCause = EndCause.OWN,
    output_tail: str = "",
) -> Verdict:
    """Returns the verdict; its reason is empty on success. `output_tail` is the end of the CLI's other output."""
    if cause is EndCause.CANCELLED:
        return Verdict(Status.CANCELLED, "The run was cancelled.")
    if cause is EndCause.TIMED_OUT:
        hint = error_hint(state.error or output_tail, driver.title, driver.keys) if not state.answered_calls else ""
        return Verdict(Status.TIMED_OUT, "The run timed out.", hint or _MORE_TIME)
    if cause is EndCause.UNSERVED:
        return _failed_verdict("Our server ended before the run did.", "Keep the host open until its runs are over.")
    return next(_failure_reasons(driver, state, exit_code, attached, output_tail), Verdict(Status.SUCCEEDED))


def _failure_reasons(
    driver: Driver, state: OutputState, exit_code: int | None, attached: bool, output_tail: str
) -> Iterator[Verdict]:
    """Yields the reasons why the run did not succeed, the most important first."""
    title = driver.title
    died = _signal_name(exit_code)
    ended_well = exit_code == 0 and state.is_over
    if state.error:
        yield _failed_verdict(f"{title} reports: {state.error}", error_hint(state.error, title, driver.keys))
    if not attached and (ended_well or state.lost_server or _SERVER_ERROR.search(output_tail)):
        yield _not_attached_verdict(title, output_tail)
    if died:
        yield _failed_verdict(
            f"{title} was ended by {died}.", "Another process ended it, or the machine ran out of memory."
        )
    if state.open_calls:
        calls = ", ".join(sorted(set(state.open_calls.values())))
        yield _failed_verdict(
            f"{title} ended while a tool was being called: {calls}.", _last_output_hint(output_tail)
        )
    if exit_code != 0:
        where = "" if attached else " before it attached to our tools"
        last_line = _last_line(output_tail)
        hint = (
            error_hint(output_tail, title, driver.keys)
            or f"See what `{driver.program}` says when you start it yourself."
        )
        how = "ended for an unknown reason" if exit_code is None else f"exited with {exit_code}"
        yield _failed_verdict(f"{title} {how}{where}{': ' + last_line if last_line else '.'}", hint)
    if not state.is_over:
        yield _failed_verdict(f"{title} ended without reporting that it was done.", _last_output_hint(output_tail))
    if state.refused_tools:
        yield _failed_verdict(
            f"{title} refused to call {_joined_names(state.refused_tools)} without asking us.",
            f"Machine-wide settings of {title} forbid it: check them.",
        )
    if state.unknown_tools and not state.answered_calls:
        yield _failed_verdict(
            f"{title} did not offer {_joined_names(state.unknown_tools)} to the model.",
            f"Machine-wide settings of {title} hide it, or this version names tools differently.",
        )


def _failed_verdict(reason: str, hint: str = "") -> Verdict:
    return Verdict(Status.FAILED, reason[:_MAX_REASON], hint)


def _not_attached_verdict(title: str, output_tail: str) -> Verdict:
    return Verdict(
        Status.NOT_ATTACHED,
        f"{title} ran without our tools: it never listed them. Nothing that it reports was done in the workspace.",
        _last_output_hint(output_tail) or f"Machine-wide settings of {title} may forbid MCP servers.",
    )


def _joined_names(tools: list[str]) -> str:
    return ", ".join(sorted(set(tools)))


def _signal_name(exit_code: int | None) -> str:
    """Returns the name of the signal that ended the CLI, or ""."""
    if exit_code is None:
        return ""
    number = -exit_code if exit_code < 0 else _SHELL_SIGNALS.get(exit_code, 0)
    try:
        return signal.Signals(number).name if number else ""
    except ValueError:
        return f"signal {number}"


def _last_line(output_tail: str) -> str:
    lines = [
        line.strip() for line in output_tail.splitlines() if not (_NOISE.search(line) or _STACK_LINE.search(line))
    ]
    return _RUST_TYPES.sub("", lines[-1])[:_MAX_REASON] if lines else ""


def _last_output_hint(output_tail: str) -> str:
    line = _last_line(output_tail)
    return f"Last output: {line}" if line else ""
