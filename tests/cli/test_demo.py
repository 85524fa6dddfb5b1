from __future__ import annotations

import os
import re

import pytest
from click.testing import CliRunner
from rich.console import Console

from toolyard.cli.demo import demo
from toolyard.demo.display import PlainScreen, RichScreen, screen_for
from toolyard.demo.session import STEPS, StepResult


@pytest.fixture
def temp(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_the_demo_plays_every_step_and_leaves_nothing(temp):
    result = CliRunner().invoke(demo)
    assert (result.exit_code, os.listdir(temp)) == (0, [])
    assert re.findall(r"^\d+\. (.*)$", result.stdout, re.MULTILINE) == [step.why for step in STEPS]
    assert f"toolyard audit --verify: {len(STEPS)} events, hash chain verified" in result.stdout


def test_the_folder_is_kept_on_request(temp):
    result = CliRunner().invoke(demo, ["--keep"])
    (kept,) = os.listdir(temp)
    assert result.exit_code == 0
    assert "VAT_RATE = 0.19" in (temp / kept / "shop" / "shop" / "pricing.py").read_text()


def test_a_step_that_ends_otherwise_fails_the_demo(temp, monkeypatch):
    wrong = StepResult(STEPS[0], "no", -32000, 1.0, ())

    def play(workspace, state):
        from toolyard.demo.session import run_session as really

        yield wrong
        yield from really(workspace, state)

    monkeypatch.setattr("toolyard.cli.demo.run_session", play)
    result = CliRunner().invoke(demo)
    assert (result.exit_code, "1 steps did not end as expected." in result.stdout) == (1, True)


def test_a_terminal_gets_panels_and_what_an_agent_wrote_is_no_markup(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    console = Console(force_terminal=True, width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        screen_for(console).show_step(1, StepResult(STEPS[3], "text", 0, 1.0, ("@@ -1 +1 @@", "-[red]old", "+new")))
    shown = console.export_text()
    assert "╭" in shown
    assert "-[red]old" in shown


def test_only_a_terminal_gets_the_rich_screen():
    assert isinstance(screen_for(Console(force_terminal=True)), RichScreen)
    assert isinstance(screen_for(Console(force_terminal=False)), PlainScreen)
