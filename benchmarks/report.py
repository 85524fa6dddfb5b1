"""Rows of figures, and the three ways they are shown: JSON, plain text, a table in a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.machine import Machine

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = ("measure", "ours", "peer", "ratio", "target", "")
_VERDICTS = {True: "met", False: "MISSED", None: ""}
_VERDICT_STYLES = {True: "green", False: "bold red", None: "dim"}
_NOTE_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours beside a peer's. `met` is None where there is no target, or where nothing was measured."""

    name: str
    unit: str
    ours: float | None = None
    peer: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    machine: Machine
    rows: tuple[Row, ...]

    @property
    def missed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.met is False)


def at_most(name: str, unit: str, ours: float, limit: float, *, peer: float | None = None, note: str = "") -> Row:
    """A figure with a limit of its own; the peer is shown beside it for scale."""
    ratio = ours / peer if peer else None
    return Row(name, unit, ours, peer, ratio, f"≤ {limit:g} {unit}", ours <= limit, note)


def at_most_times(
    name: str, unit: str, ours: float, peer: float, factor: float, *, plus: float = 0.0, note: str = ""
) -> Row:
    """Less is better: ours may be `factor` times the peer's, and a fixed cost of `plus`."""
    target = f"≤ {factor:g}x" + (f" + {plus:g} {unit}" if plus else "")
    return Row(name, unit, ours, peer, ours / peer, target, ours <= factor * peer + plus, note)


def at_least_times(name: str, unit: str, ours: float, peer: float, factor: float, *, note: str = "") -> Row:
    """More is better."""
    return Row(name, unit, ours, peer, ours / peer, f"≥ {factor:g}x", ours >= factor * peer, note)


def beside(name: str, unit: str, ours: float, peer: float, *, note: str = "") -> Row:
    """For information: no target."""
    return Row(name, unit, ours, peer, ours / peer, note=note)


def skipped(name: str, unit: str, why: str) -> Row:
    return Row(name, unit, note=f"skipped: {why}")


def as_json(report: Report) -> str:
    return json.dumps(asdict(report), ensure_ascii=False, indent=2)


def as_text(report: Report) -> str:
    cells = [_COLUMNS, *(_cells(row) for row in report.rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    lines = [report.machine.summary, ""]
    for number, line in enumerate(cells):
        lines.append(_aligned(line, widths))
        if number and (note := report.rows[number - 1].note):
            lines.append(_NOTE_INDENT + note)
    return "\n".join([*lines, "", verdict(report)])


def as_table(report: Report) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=report.machine.summary, title_style="dim", caption=verdict(report), header_style="bold")
    for column, title in enumerate(_COLUMNS):
        table.add_column(title, justify="left" if column == 0 else "right", overflow="fold")
    for row in report.rows:
        name, *figures, said = _cells(row)
        label = Text(name)
        if row.note:
            label.append(f"\n{row.note}", style="dim")
        table.add_row(label, *map(Text, figures), Text(said, style=_VERDICT_STYLES[row.met]))
    return table


def verdict(report: Report) -> str:
    judged = [row for row in report.rows if row.met is not None]
    return f"{len(judged) - len(report.missed)} of {len(judged)} targets met."


def _cells(row: Row) -> Sequence[str]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    figures = (_figure(row.ours, row.unit), _figure(row.peer, row.unit))
    return (row.name, *figures, ratio, row.target, _VERDICTS[row.met])


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.2f} {unit}"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join((first, *rest)).rstrip()
