"""How a run ended: a pure function of what was seen of it.

What a CLI says of itself is not enough. Gemini CLI calls a run without any tools a success, Claude Code one whose
provider refused every request, and both exit with 0. So a run has succeeded only where our server saw it attach, it
exited with 0, said that it was done, reported no error, and left no call unanswered.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from toolyard.drivers.clis.error_hints import advice
from toolyard.drivers.driver import Driver, Heard
from toolyard.drivers.messages import Status

_SHELL_SIGNALS = {128 + number: number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)}
"""Exit codes by which a program says that it took a signal for its end. Others above 128 mean something else."""
_SERVER_TROUBLE = re.compile(r"MCP (server|client|startup)|mcp_servers|required MCP", re.IGNORECASE)
_NOISE = re.compile(r"^(Reading additional input from stdin|Warning: 256-color|Ripgrep is not available)")
"""Lines that CLIs print to stderr when all is well."""
_TRACE = re.compile(r"^\s*at |^[^A-Za-z]*$")
_TYPES = re.compile(r" ?\[[\w:<>, ]{40,}\]")
"""Names of types in the messages of programs in Rust."""
_MORE_TIME = "Give it more time, or a smaller task."
_LONGEST_REASON = 500


class Ending(StrEnum):
    """Who ended it."""

    OWN = "own"
    """Itself, or somebody we do not know."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    UNSERVED = "unserved"
    """We, since our server ended before it: there is nothing it could do any more."""


class Verdict(NamedTuple):
    status: Status
    reason: str = ""
    hint: str = ""


def verdict(
    driver: Driver,
    heard: Heard,
    exit_code: int | None,
    *,
    attached: bool,
    ending: Ending = Ending.OWN,
    said: str = "",
) -> Verdict:
    """`said` is what it printed beside its messages, the last of it. The reason is empty where the run succeeded."""
    if ending is Ending.CANCELLED:
        return Verdict(Status.CANCELLED, "The run was cancelled.")
    if ending is Ending.TIMED_OUT:
        hint = advice(heard.error or said, driver.title, driver.keys) if not heard.answered else ""
        return Verdict(Status.TIMED_OUT, "The run took longer than it may.", hint or _MORE_TIME)
    if ending is Ending.UNSERVED:
        return _failed("Our server ended before the run did.", "Keep the host open until its runs are over.")
    return next(_objections(driver, heard, exit_code, attached, said), Verdict(Status.SUCCEEDED))


def _objections(driver: Driver, heard: Heard, exit_code: int | None, attached: bool, said: str) -> Iterator[Verdict]:
    """What speaks against success, the gravest first."""
    title = driver.title
    died = _signal(exit_code)
    ended_well = exit_code == 0 and heard.is_over
    if heard.error:
        yield _failed(f"{title} reports: {heard.error}", advice(heard.error, title, driver.keys))
    if not attached and (ended_well or heard.lost_server or _SERVER_TROUBLE.search(said)):
        yield _not_attached(title, said)
    if died:
        yield _failed(f"{title} was ended by {died}.", "Somebody else ended it, or the machine ran out of memory.")
    if heard.open_calls:
        calls = ", ".join(sorted(set(heard.open_calls.values())))
        yield _failed(f"{title} ended while a tool was being called: {calls}.", _last_words(said))
    if exit_code != 0:
        where = "" if attached else " before it attached to our tools"
        said_last = _last_line(said)
        hint = advice(said, title, driver.keys) or f"See what `{driver.program}` says when you start it yourself."
        how = "ended, nobody knows how," if exit_code is None else f"exited with {exit_code}"
        yield _failed(f"{title} {how}{where}{': ' + said_last if said_last else '.'}".replace(",.", "."), hint)
    if not heard.is_over:
        yield _failed(f"{title} ended without saying that it was done.", _last_words(said))
    if heard.refused_tools:
        yield _failed(
            f"{title} refused to call {_names(heard.refused_tools)} without asking us.",
            f"Settings of {title} that apply to the whole machine forbid it: look there.",
        )
    if heard.unknown_tools and not heard.answered:
        yield _failed(
            f"{title} did not offer {_names(heard.unknown_tools)} to the model.",
            f"Settings of {title} that apply to the whole machine hide it, or this version names tools otherwise.",
        )


def _failed(reason: str, hint: str = "") -> Verdict:
    return Verdict(Status.FAILED, reason[:_LONGEST_REASON], hint)


def _not_attached(title: str, said: str) -> Verdict:
    return Verdict(
        Status.NOT_ATTACHED,
        f"{title} ran without our tools: it never listed them. Whatever it says it did, it did not do it here.",
        _last_words(said) or f"Settings of {title} that apply to the whole machine may forbid MCP servers.",
    )


def _names(tools: list[str]) -> str:
    return ", ".join(sorted(set(tools)))


def _signal(exit_code: int | None) -> str:
    """The name of the signal that ended it, if one did."""
    if exit_code is None:
        return ""
    number = -exit_code if exit_code < 0 else _SHELL_SIGNALS.get(exit_code, 0)
    try:
        return signal.Signals(number).name if number else ""
    except ValueError:
        return f"signal {number}"


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if not (_NOISE.search(line) or _TRACE.search(line))]
    return _TYPES.sub("", lines[-1])[:_LONGEST_REASON] if lines else ""


def _last_words(said: str) -> str:
    line = _last_line(said)
    return f"The last it said: {line}" if line else ""
