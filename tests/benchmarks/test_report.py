from __future__ import annotations

import io
import json

from rich.console import Console

from benchmarks.machine import Machine, describe
from benchmarks.report import (
    Report,
    Row,
    as_json,
    as_table,
    as_text,
    at_least_times,
    at_most,
    at_most_times,
    beside,
    skipped,
)
from benchmarks.rounds import interleaved

MACHINE = Machine("A CPU", 2, "6.1", "3.11.7", 0.5, "2026-01-02 03:04 UTC")
REPORT = Report(
    MACHINE,
    (
        at_most_times("search", "ms", 12.0, 10.0, 1.3),
        at_least_times("calls", "calls/s", 100.0, 200.0, 1.5, note="why"),
        skipped("tokens", "tokens", "no tokenizer"),
    ),
)


def test_less_is_better_where_a_limit_is_a_multiple():
    assert at_most_times("a", "ms", 17.0, 10.0, 1.3, plus=5.0) == Row(
        "a", "ms", 17.0, 10.0, 1.7, "≤ 1.3x + 5 ms", met=True
    )
    assert at_most_times("a", "ms", 19.0, 10.0, 1.3, plus=5.0).met is False


def test_more_is_better_for_calls_a_second():
    assert at_least_times("a", "calls/s", 30.0, 20.0, 1.5) == Row("a", "calls/s", 30.0, 20.0, 1.5, "≥ 1.5x", met=True)
    assert at_least_times("a", "calls/s", 29.0, 20.0, 1.5).met is False


def test_a_limit_of_its_own_does_not_depend_on_the_peer():
    assert at_most("a", "µs", 31.0, 30, peer=62.0) == Row("a", "µs", 31.0, 62.0, 0.5, "≤ 30 µs", met=False)


def test_a_figure_without_a_target_is_not_judged():
    assert beside("a", "µs", 1.0, 2.0) == Row("a", "µs", 1.0, 2.0, 0.5)


def test_the_text_holds_every_row_its_note_and_the_verdict():
    assert as_text(REPORT).splitlines() == [
        MACHINE.summary,
        "",
        "measure         ours         peer  ratio  target",
        "search         12 ms        10 ms  1.20x  ≤ 1.3x     met",
        "calls    100 calls/s  200 calls/s  0.50x  ≥ 1.5x  MISSED",
        "    why",
        "tokens             -            -",
        "    skipped: no tokenizer",
        "",
        "1 of 2 targets met.",
    ]


def test_the_json_is_the_whole_report():
    read = json.loads(as_json(REPORT))
    assert read["machine"]["cpu"] == "A CPU"
    assert read["rows"][1] == {
        "name": "calls",
        "unit": "calls/s",
        "ours": 100.0,
        "peer": 200.0,
        "ratio": 0.5,
        "target": "≥ 1.5x",
        "met": False,
        "note": "why",
    }


def test_the_table_shows_names_as_they_are():
    report = Report(MACHINE, (beside("[bold]odd[/bold]", "ms", 1.0, 1.0),))
    shown = io.StringIO()
    Console(width=120, file=shown).print(as_table(report))
    assert "[bold]odd[/bold]" in shown.getvalue()


def test_contenders_take_turns_in_alternating_order_and_the_median_is_kept():
    order = []
    values = {"a": iter([9.0, 3.0, 1.0, 2.0]), "b": iter([9.0, 30.0, 10.0, 20.0])}

    def contender(name):
        def run():
            order.append(name)
            return next(values[name])

        return run

    medians = interleaved({name: contender(name) for name in values}, rounds=3)
    assert medians == {"a": 2.0, "b": 20.0}
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"


def test_the_machine_names_its_cores_and_kernel():
    machine = describe()
    assert machine.cores >= 1
    assert f"kernel {machine.kernel}" in machine.summary
