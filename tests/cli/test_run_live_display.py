"""What a terminal shows of a run of agents."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.small_terminal import SmallTerminal
from tests.team import scripted_events as scripted
from toolyard.cli.run.layout import best_columns, render_screen
from toolyard.cli.run.live_display import LiveDisplay
from toolyard.cli.run.panels import DrawContext
from toolyard.cli.run.state import TeamProgress
from toolyard.models.messages import ModelUsage
from toolyard.team.events import (
    AgentFailed,
    AgentStarted,
    EndReason,
    FilesChanged,
    Notice,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolReturned,
    Used,
    Waiting,
)

START = scripted.START
ROOT = Path(__file__).resolve().parents[2]


class Written(io.StringIO):
    encoding = "utf-8"


class OneTerminal:
    """Outlets of which the answer is not apart."""

    is_split = False


class Shown:
    """A display whose thread is not waited for: the test draws."""

    def __init__(self, width=100, height=30, **options):
        self.file, self.now = Written(), START
        self.console = Console(
            file=self.file, width=width, height=height, force_terminal=True, color_system="standard", markup=False
        )
        self.terminal = SmallTerminal(width, height)
        self.display = LiveDisplay(self.console, OneTerminal(), clock=lambda: self.now, **options)
        self.display._keep_drawing = lambda: None

    def hear(self, *events, now=None):
        for event in events:
            self.display.handle_event(event)
        self.now = START + now if now is not None else self.now
        return self.drawn()

    def drawn(self):
        self.display.draw()
        self.terminal.feed(self.taken())
        return self.terminal.text

    def taken(self):
        text = self.file.getvalue()
        self.file.seek(0)
        self.file.truncate()
        return text


def team(*events):
    followed = TeamProgress()
    for event in events:
        followed.handle_event(event)
    return followed


def drawn(followed, width, height, now=START + 9):
    console = Console(file=io.StringIO(), width=width, height=height)
    return [line.plain for line in render_screen(followed, width, height, DrawContext(console, now))]


def a_team_of(count, *more):
    names = [f"agent_{number}" for number in range(1, count + 1)]
    at_work = [AgentStarted(agent=name, round=1, at=START) for name in names]
    said = [TextDelta(agent=name, round=1, text=f"Here is {name}. " * 30, at=START) for name in names]
    return team(scripted.started(*names), RoundStarted(round=1, agents=tuple(names)), *at_work, *said, *more)


def test_two_agents_stand_beside_each_other_with_what_they_say_and_do():
    shown = Shown(120, 24)
    text = shown.hear(scripted.started(), *[*scripted.first_round()][:13], now=9)
    top = text.split("\n")[1]
    assert re.fullmatch(
        r"╭─ \S ada  gemini-2.5-flash ─+ working ─╮╭─ ◌ bob  gpt-5-mini ─+ waiting 6 s for the model ─╮", top
    )
    assert "Where are prices added up?" in text
    assert "✓ Read   shop.py  1 line  12 ms" in text
    assert "Never mind" not in text  # it was taken back
    assert "1.1k tok · $0.0010" in text
    assert "round 1/4 · 0:09/1:00:00 · 1.1k/200k tokens · $0.0010/$2.00" in text
    assert text.rstrip().endswith("Ctrl-C stops and keeps the work")


def test_what_a_model_thinks_is_dimmed_and_what_it_says_is_not():
    shown = Shown()
    shown.hear(scripted.started("ada"))
    shown.terminal.feed(shown.taken())
    shown.display.handle_event(ThinkingDelta(agent="ada", text="hm, perhaps"))
    shown.display.handle_event(TextDelta(agent="ada", text="it is so"))
    shown.display.draw()
    written = shown.taken()
    assert re.search(r"\x1b\[[\d;]*2;3m *hm, perhaps", written)
    assert re.search(r"\x1b\[0m it is so", written)


def test_the_state_of_an_agent_is_told_as_it_changes():
    shown = Shown()
    ada = {"agent": "ada", "round": 1, "at": START}
    shown.hear(scripted.started("ada"))
    assert "not started" in shown.drawn()
    assert "working" in shown.hear(AgentStarted(**ada))
    assert "thinking" in shown.hear(ThinkingDelta(text="hm", **ada))
    assert "writing" in shown.hear(TextDelta(text="so", **ada))
    assert "─ Bash 5.0 s ─" in shown.hear(
        ToolCalled(call="1", tool="Bash", arguments={"command": "pytest -q"}, **ada), now=5
    )
    assert "✓ Bash   pytest -q  3 passed" in shown.hear(
        ToolReturned(call="1", tool="Bash", ok=True, text="3 passed", exit_code=0, **ada)
    )
    assert "± a.py, b.py, 3 more files  snapshot 0123456789ab" in shown.hear(
        FilesChanged(paths=("a.py", "b.py"), total=5, snapshot="0123456789abcdef", **ada)
    )
    assert "waiting 12 s for the model" in shown.hear(Waiting(seconds=12, why="busy", **ada), now=0)
    assert "trying again" in shown.hear(now=12)
    assert "failed ─╮" in shown.hear(AgentFailed(why="No key.", hint="Set it.", **ada))
    assert "→ Set it." in shown.drawn()


@pytest.mark.parametrize(("width", "height"), [(20, 5), (36, 10), (80, 24), (120, 40), (200, 60), (1, 1), (9, 3)])
@pytest.mark.parametrize("count", [1, 2, 12, 40])
def test_every_screen_is_exactly_as_large_as_the_terminal(count, width, height):
    followed = a_team_of(count, Notice(text="Something to know."))
    lines = drawn(followed, width, height)
    assert len(lines) == height
    assert {len(line) for line in lines} == {width}


def test_the_layout_follows_the_room():
    assert best_columns(1, 80, 22) == 1
    assert best_columns(2, 80, 22) == 1  # stacked
    assert best_columns(2, 160, 40) == 2
    assert best_columns(2, 110, 28) == 2
    assert best_columns(12, 200, 50) == 4
    assert best_columns(12, 80, 22) == 0  # a line each
    assert best_columns(3, 30, 50) == 0


def test_twelve_agents_in_a_small_terminal_have_a_line_each():
    lines = drawn(a_team_of(12), 80, 24)
    for number in range(1, 13):
        line = next(line for line in lines if f" agent_{number} " in line)
        assert f"Here is agent_{number}." in line
        assert "writing" in line


def test_more_agents_than_lines_leave_out_those_that_have_nothing_new():
    voted = [AgentFailed(agent=f"agent_{number}", why="gone", at=START) for number in range(1, 31)]
    lines = drawn(a_team_of(40, *voted), 80, 15)
    assert [line for line in lines if " agent_35 " in line]
    assert lines[-2].rstrip() == "… and 28 more agents, 0 of them working"


def test_a_limit_that_is_near_is_coloured():
    shown = Shown(120)
    shown.hear(scripted.started("ada"))
    shown.terminal.feed(shown.taken())
    shown.display.handle_event(Used(agent="ada", spent=ModelUsage(198_000, 0, 0, 0.1)))
    shown.display.draw()
    assert "\x1b[1;31m198k\x1b[0m\x1b[2m/200k tokens" in shown.taken()


def test_a_line_that_has_not_changed_is_not_sent_again():
    shown = Shown()
    shown.hear(scripted.started("ada"), TextDelta(agent="ada", text="one line"), now=1)
    shown.display.handle_event(TextDelta(agent="ada", text=" and more"))
    shown.display.draw()
    sent = shown.taken()
    assert "one line and more" in sent
    assert sent.count("\x1b[2K") == 1
    shown.display.draw()
    assert shown.taken() == ""


def test_what_somebody_else_wrote_over_the_screen_is_mended_after_a_while():
    shown = Shown()
    shown.hear(scripted.started("ada"), now=1)
    shown.terminal.feed("\x1b[3;1Hwarning: something")
    assert "warning" in shown.hear(now=2)
    assert "warning" not in shown.hear(now=8)


def test_a_terminal_that_changes_its_size_is_drawn_anew():
    shown = Shown(120, 30)
    shown.hear(scripted.started(), *scripted.first_round(), now=40)
    shown.console.size = (50, 16)
    shown.terminal = SmallTerminal(50, 16)
    shown.terminal.is_other = True
    text = shown.drawn()
    assert all(len(line) == 50 for line in shown.terminal.lines)
    assert text.count("╭") == 2
    assert "★ answered" in text


def test_while_somebody_is_asked_the_screen_is_theirs():
    shown = Shown()
    shown.hear(scripted.started("ada"), now=1)
    with shown.display.pause():
        shown.terminal.feed(shown.taken())
        assert not shown.terminal.is_other
        assert shown.terminal.modes["25"]  # the cursor is shown
        assert shown.terminal.modes["7"]  # and lines wrap
        with shown.display.pause():
            pass
        shown.hear(TextDelta(agent="ada", text="meanwhile"))
        assert not shown.terminal.is_other
    assert "meanwhile" in shown.drawn()
    assert shown.terminal.is_other


def test_a_user_who_stops_it_is_told_that_it_stops():
    shown = Shown()
    shown.hear(scripted.started("ada"))
    shown.display.show_stopping()
    assert "stopping; Ctrl-C again stops immediately" in shown.drawn()


def test_the_end_is_a_summary_where_the_terminal_was():
    shown = Shown(100, 40)
    for event in scripted.whole_run():
        shown.display.handle_event(event)
    terminal = shown.terminal
    terminal.feed(shown.taken())
    assert not terminal.is_other
    assert terminal.modes == {"1049": False, "7": True, "25": True}
    assert [line for line in terminal.text.split("\n") if line] == [
        "✓ Consensus  Every agent voted for ada's answer.",
        "  2 rounds · 1 min 36 s · 43k tokens (12k cached) · $0.05",
        "ada's answer",
        "  Prices are summed in cents now.",
        "   • shop.py adds integers",
        "   • a test shows it",
        "  ★ ada  won with 2 votes, voted for itself, 1 file changed · 32k tokens (10k cached) · $0.05",
        "  · bob  voted for ada · 11k tokens (2.0k cached) · $0.0050",
        "  Files   1 file, snapshot 0d3c457c96a4",
        "  in      /work/ada",
        "    ± shop.py",
        "  ! Prices of gpt-5-mini are not known.",
        "  Report  /state/runs/r7/report.html",
    ]


def test_an_interrupted_run_says_how_to_go_on():
    shown = Shown()
    shown.display.handle_event(scripted.started("ada"))
    shown.display.handle_event(
        scripted.finished(ended=EndReason.INTERRUPTED, why="You stopped it.", winner="", text="", votes={})
    )
    shown.terminal.feed(shown.taken())
    assert "! Interrupted  You stopped it." in shown.terminal.text
    assert "Resume  toolyard run --resume r7" in shown.terminal.text
    assert "ada  no answer" in shown.terminal.text


@pytest.mark.parametrize("size", [(120, 40), (60, 20), (30, 8)])
def test_nothing_that_a_model_or_a_tool_says_speaks_to_the_terminal(size):
    shown = Shown(*size)
    for event in scripted.hostile_run():
        text = shown.hear(event)  # the terminal fails for every character that it would act on
        assert "\ufffd" not in text  # nor is anything left for the last sieve
    shown.terminal.feed(shown.taken())
    assert "[bold red]x[/]" in shown.terminal.text.replace("\n", "") or size[0] < 60


def test_a_hundred_thousand_pieces_and_a_huge_line_take_little_time_and_memory():
    shown = Shown(160, 40)
    shown.hear(scripted.started(*[f"agent_{number}" for number in range(12)]))
    began = time.monotonic()
    for number in range(100_000):
        shown.display.handle_event(TextDelta(agent=f"agent_{number % 12}", text="word and ", at=START))
    shown.display.handle_event(TextDelta(agent="agent_0", text="x" * 5_000_000, at=START))
    shown.display.handle_event(
        ToolCalled(agent="agent_1", call="1", tool="t" * 10**6, arguments={"command": "y" * 10**6})
    )
    shown.drawn()
    assert time.monotonic() - began < 15
    kept = [item for agent in shown.display.team.agents.values() for item in agent.items]
    assert sum(len(getattr(item, "text", "")) for item in kept) < 12 * 40_000


def test_a_drawing_that_fails_ends_the_drawing_and_not_the_run():
    shown = Shown()
    shown.display.handle_event(scripted.started("ada"))
    del shown.display._keep_drawing
    shown.display.draw = lambda: 1 / 0
    shown.display._keep_drawing()
    shown.display.handle_event(scripted.finished())
    shown.terminal.feed(shown.taken())
    assert "The display failed, but the run continued: ZeroDivisionError" in shown.terminal.text


PLAYER = """
import sys, threading
from tests.team import scripted_events as scripted
from toolyard.cli.run.displays import display_for
display = display_for("rich_terminal")
events = [*scripted.whole_run()]
for event in events[:-1]:
    display.handle_event(event)
while display._drawn_lines == [] or display._size[0] != 60: # until it is drawn in the new size
    threading.Event().wait(0.02)
display.handle_event(events[-1])
display.close()
"""


def played(stdout_is_terminal, player=PLAYER):
    """Everything that a real terminal is sent, and what a pipe beside it holds."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", player],
        stdin=theirs,
        stdout=theirs if stdout_is_terminal else subprocess.PIPE,
        stderr=theirs,
        cwd=ROOT,
        env={**env, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,
    )
    os.close(theirs)
    got = b""
    try:
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            got += piece
            if b"\x1b[24;1H" in got:  # the status line of the first size
                fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
        piped = process.stdout.read().decode() if process.stdout else ""
        return got.decode(), piped, process.wait(30)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if process.stdout:
            process.stdout.close()
        os.close(ours)


def test_a_real_terminal_is_drawn_in_follows_its_size_and_is_given_back():
    got, _, code = played(stdout_is_terminal=True)
    assert code == 0, got
    entered, left = got.index("\x1b[?1049h"), got.index("\x1b[?1049l")
    assert entered < got.index("\x1b[24;1H") < left
    small = SmallTerminal(60, 20)
    small.is_other = True
    whole = got.rindex("\x1b[2J", entered, left)
    small.feed(got[whole:left].rpartition("\x1b[")[0])
    assert "toolyard run r7" in small.text
    assert "Ctrl-C stops" in small.text
    assert "ada's answer" in got[left:]
    assert "\x1b[?25h" in got[entered:]


def test_with_standard_output_in_a_file_the_panels_are_on_standard_error_and_the_file_holds_the_answer():
    got, piped, code = played(stdout_is_terminal=False)
    assert code == 0, got
    assert piped == scripted.finished().text + "\n"
    assert "\x1b[?1049h" in got
    assert "✓ Consensus" in got[got.index("\x1b[?1049l") :]
