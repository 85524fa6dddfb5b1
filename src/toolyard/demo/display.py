"""Displays of the demo session: panels and colours in a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from toolyard.demo.session import StepResult
from toolyard.storage.audit_files import AuditRecord
from toolyard.storage.audit_verifier import Verification

_PAUSE_SECONDS = 0.3
"""Pause between two steps in a terminal, so that a viewer can follow."""
_SHOWN_LINES = 12
_SHOWN_CHARS = 60
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class Screen(Protocol):
    """Shows the start, the steps, the audit log and the end of a session."""

    def show_start(self, workspace: str) -> None: ...

    def show_step(self, number: int, result: StepResult) -> None: ...

    def show_audit(self, records: Sequence[AuditRecord], found: Verification) -> None: ...

    def show_end(self, message: str) -> None: ...


class PlainScreen:
    """Prints plain lines, for pipes and logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show_start(self, workspace: str) -> None:
        self._print(f"toolyard mcp --workspace {workspace}\n")

    def show_step(self, number: int, result: StepResult) -> None:
        ending = f"refused, {result.code}" if result.is_refused else "ok"
        self._print(f"{number}. {result.step.why}\n   {_call_text(result)}  [{ending}, {result.milliseconds:.1f} ms]")
        for line in (*_result_lines(result), *result.diff):
            self._print(f"   | {line}")
        self._print("")

    def show_audit(self, records: Sequence[AuditRecord], found: Verification) -> None:
        self._print("toolyard audit")
        for record in records:
            event = record.event
            self._print(f"   {record.seq:>3}  {event.outcome.value:<7} {event.tool:<16} {event.target}")
        self._print(f"toolyard audit --verify: {_verdict(found)}\n")

    def show_end(self, message: str) -> None:
        self._print(message)


class RichScreen:
    """Prints panels and a table, for terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show_start(self, workspace: str) -> None:
        shown = Text.assemble(("$ ", "dim"), ("toolyard mcp --workspace ", "bold"), workspace)
        self._console.print(
            Panel(shown, title="Toolyard demo", subtitle="the real server, over stdio", box=box.HEAVY)
        )

    def show_step(self, number: int, result: StepResult) -> None:
        colour = "red" if result.is_refused else "green"
        body: list[Text] = [
            Text(line, style="yellow" if result.is_refused else "dim") for line in _result_lines(result)
        ]
        body += [Text(line, style=_DIFF_STYLES.get(line[:1], "dim")) for line in result.diff]
        ending = f"refused ({result.code})" if result.is_refused else "ok"
        panel = Panel(
            Group(Text(_call_text(result), style="bold"), *body),
            title=f"{number}. {escape(result.step.why)}",
            title_align="left",
            subtitle=f"[{colour}]{ending}[/{colour}] · {result.milliseconds:.1f} ms",
            subtitle_align="right",
            border_style=colour,
        )
        self._console.print(panel)
        time.sleep(_PAUSE_SECONDS)

    def show_audit(self, records: Sequence[AuditRecord], found: Verification) -> None:
        table = Table(box=box.SIMPLE, title="toolyard audit", title_justify="left", pad_edge=False)
        for title in ("#", "outcome", "tool", "target", "ms"):
            table.add_column(title, justify="right" if title in {"#", "ms"} else "left")
        for record in records:
            event = record.event
            style = "green" if event.outcome == "ok" else "red"
            cells = (event.tool, event.target, f"{event.milliseconds:.1f}")
            table.add_row(str(record.seq), Text(event.outcome.value, style=style), *map(Text, cells))
        self._console.print(table)
        colour = "green" if found.ok else "red"
        self._console.print(Text.assemble(("toolyard audit --verify  ", "bold"), (_verdict(found), colour)))

    def show_end(self, message: str) -> None:
        self._console.print(Text(message, style="bold"))


def screen_for(console: Console) -> Screen:
    """Returns the display that fits the console."""
    return RichScreen(console) if console.is_terminal else PlainScreen(console)


def _call_text(result: StepResult) -> str:
    spelled = ", ".join(f"{name}={_shorten_json(value)}" for name, value in result.step.arguments.items())
    return f"{result.step.tool}({spelled})"


def _shorten_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def _result_lines(result: StepResult) -> list[str]:
    if result.diff:
        return []  # the diff is shown instead
    lines = result.text.splitlines()
    more = len(lines) - _SHOWN_LINES
    return lines if more <= 0 else [*lines[:_SHOWN_LINES], f"… {more} more lines"]


def _verdict(found: Verification) -> str:
    return f"{found.events} events, " + ("hash chain verified" if found.ok else "the log was modified")
