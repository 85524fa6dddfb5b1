"""What a terminal shows of a run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from toolyard.cli.drive.changes import RunChanges
from toolyard.cli.drive.live_display import LiveDriveDisplay, split_blocks
from toolyard.cli.drive.presenter import DriveInfo
from toolyard.config.settings import Settings
from toolyard.drivers import Fault, Finished, ResultStatus, SessionStarted, Status, TextDelta, ToolCall, ToolResult

ABOUT = DriveInfo("Gemini CLI", "/home/me/shop", Settings.from_environment({"HOME": "/home/me"}))


class Terminal:
    """What was printed for good: the lines that change are not drawn."""

    def __init__(self, width: int = 80) -> None:
        self.file = io.StringIO()
        console = Console(file=self.file, width=width, height=24, force_terminal=True, no_color=True, markup=False)
        self.showing = LiveDriveDisplay(ABOUT, console)
        self.showing.close()
        self.file.seek(0)
        self.file.truncate()

    def shown(self, *messages) -> str:
        for message in messages:
            self.showing.show(message)
        return self.file.getvalue()

    def lines(self, *messages) -> list[str]:
        return [line.rstrip() for line in self._plain(self.shown(*messages)).split("\n")]

    @staticmethod
    def _plain(text: str) -> str:
        for code in ("0", "1", "2", "1;2", "3", "1;4", "4"):
            text = text.replace(f"\x1b[{code}m", "")
        return text


def test_the_parts_of_a_run_stand_apart():
    shown = Terminal().lines(
        SessionStarted("r", "gemini", "gemini-2.5-pro"),
        TextDelta("I will **look**.\n\nAnd "),
        TextDelta("then edit."),
        ToolCall("1", "Read", {"file_path": "/home/me/shop/a.py"}),
        ToolResult("1", ResultStatus.OK, "     1\tx"),
        ToolCall("2", "Read", {"file_path": "/etc/passwd"}),
        ToolResult("2", ResultStatus.FAILED, "It is outside the workspace."),
        ToolCall("3", "Bash", {"command": "pytest -q"}),
        Finished(Status.FAILED, reason="It was ended.", hint="Try again.", seconds=0),
    )
    assert shown == [
        *("Gemini CLI  gemini-2.5-pro · ~/shop", ""),
        *("I will look.", "", "And then edit.", ""),
        *("  ✓ Read   a.py  1 line", "  ✗ Read   /etc/passwd", "      It is outside the workspace."),
        *("  ! Bash   pytest -q  no answer", ""),
        *("✗ Failed", "  It was ended.", "  → Try again.", ""),
    ]


def test_a_line_about_a_call_fits_a_narrow_terminal():
    shown = Terminal(width=40).lines(
        ToolCall("1", "Write", {"file_path": "a/very/long/path/that/does/not/fit/here.py"}),
        ToolResult("1", ResultStatus.OK, "Created x (1,000 lines, 2 bytes)."),
    )
    assert shown == ["  ✓ Write  a/very/long…  new, 1,000 lin…", ""]


def test_an_error_that_the_end_tells_as_well_is_told_once():
    same = Terminal().shown(Fault("No key."), Finished(Status.FAILED, reason="Gemini CLI reports: No key."))
    assert same.count("No key.") == 1
    other = Terminal().shown(Fault("429"), TextDelta("hm"), Finished(Status.SUCCEEDED))
    assert "! 429" in Terminal._plain(other)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]0;owned\x07 and \x1b[2J",
        "&#27;[2J &#x9b;31m &#8238;abc &#13;over",
        "[a link](https://example.com/\x1b]8;;x)",
        "[click](javascript:x) <https://example.com>",
        "```\n\x1b[31m\n```",
        "![picture](http://example.com/\x1b)",
    ],
)
def test_no_text_of_a_model_speaks_to_the_terminal(text):
    terminal = Terminal()
    shown = terminal.shown(
        SessionStarted("r", "gemini", f"m{text}"),
        TextDelta(text),
        ToolCall("1", f"Read{text}", {"file_path": text}, ours=False),
        ToolResult("1", ResultStatus.FAILED, text),
        Fault(text, text),
        ToolCall("2", "Bash", {"command": text}),
        Finished(Status.FAILED, reason=text, hint=text),
    )
    terminal.showing.show_changes(RunChanges((f"M {text}",), f"To undo it: {text}"))
    shown = Terminal._plain(terminal.file.getvalue())
    for code in ("\x1b[1;36;40m", "\x1b[36;40m", "\x1b[40m"):
        shown = shown.replace(code, "")
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []


def test_a_link_shows_where_it_leads():
    assert Terminal().lines(TextDelta("[safe](https://evil.example)\n\nx"))[0] == "safe (https://evil.example)"


def test_text_is_split_where_a_paragraph_ends_and_nowhere_else():
    assert split_blocks("a\nb\n\nc") == (["a\nb\n\n"], "c", "")
    assert split_blocks("- a\n\n  more of a\n\nb") == (["- a\n\n  more of a\n\n"], "b", "")
    assert split_blocks("```py\na\n\nb\n") == ([], "```py\na\n\nb\n", "```py")
    assert split_blocks("~~~~\n```\n~~~~\n\nc") == (["~~~~\n```\n~~~~\n\n"], "c", "")
    assert split_blocks("a\n\n") == ([], "a\n\n", "")


def test_a_paragraph_without_end_is_printed_in_parts():
    terminal = Terminal()
    terminal.shown(TextDelta("```py\n"), *[TextDelta("x = 1\n" * 100)] * 40)
    assert len(terminal.showing._text) < 20_000
    assert terminal.file.getvalue().count("x = 1") > 1000


def test_what_changed_is_told_with_how_to_undo_it():
    terminal = Terminal(width=40)
    undo = "To undo it: toolyard snapshot restore 0d3c457c96a4 src/a.py"
    terminal.showing.show_changes(RunChanges(("M src/a.py  +1 -2",), undo))
    assert terminal.lines() == ["  M src/a.py  +1 -2", f"  {undo}", ""]
    terminal = Terminal()
    terminal.showing.show_changes(RunChanges())
    assert terminal.lines() == ["  No file was changed.", ""]
