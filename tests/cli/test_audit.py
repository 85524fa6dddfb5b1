"""`toolyard audit` as a user runs it."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import asdict, replace

import pytest
from click.testing import CliRunner, Result

from toolyard.cli import audit as module
from toolyard.cli.audit import audit
from toolyard.core.events import CallOutcome, Event
from toolyard.core.text import printable
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.audit_reader import read
from toolyard.storage.state_folder import state_dir

EVENT = Event("c", "stdio", "agent_a", "s", "Read", "read", "/ws/a.txt", "allow", "inside", CallOutcome.OK, 0, 1.5)
DENIED = replace(
    EVENT,
    tool="Edit",
    target="/etc/\x1b]0;evil\x07\x9b2J\u202e[red]x[/red]\x7f",
    reason="outside",
    outcome=CallOutcome.DENIED,
)


class Place:
    def __init__(self, folder) -> None:
        self.workspace = str(folder / "ws")
        self.state = str(folder / "state")
        os.mkdir(self.workspace)

    @property
    def folder(self) -> str:
        return state_dir(self.state, self.workspace)

    @property
    def log(self) -> str:
        return os.path.join(self.folder, "audit.jsonl")

    def append(self, *events: Event) -> None:
        with AuditLog.open(self.folder) as log:
            for event in events:
                log.append(event)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(audit, ["--workspace", self.workspace, "--state", self.state, *arguments])


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def test_plain_lines_say_when_who_what_and_how_it_ended(place):
    place.append(EVENT, DENIED)
    times = [record.time for record in read(place.folder)]
    result = place.run()
    hidden = "/etc/\\x1b]0;evil\\x07\\x9b2J\\u202e[red]x[/red]\\x7f"
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{times[0]} 1 ok agent_a Read /ws/a.txt 1.5ms",
        f"{times[1]} 2 denied agent_a Edit {hidden} 1.5ms (outside)",
    ]


def test_json_gives_one_object_a_line_with_every_field(place):
    place.append(EVENT, DENIED)
    result = place.run("--json")
    records = list(read(place.folder))
    expected = [{"seq": r.seq, "time": r.time, **asdict(r.event), "prev": r.prev, "hash": r.hash} for r in records]
    assert [json.loads(line) for line in result.stdout.splitlines()] == expected
    assert printable(result.stdout.replace("\n", "")) == result.stdout.replace("\n", "")


def test_a_table_on_a_terminal_shows_escapes_and_markup_as_text(place, monkeypatch):
    place.append(EVENT, DENIED)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module.sys, "stdout", terminal)
    audit.main(["--workspace", place.workspace, "--state", place.state], standalone_mode=False)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())  # the colours of the table itself
    header, first, second = shown.splitlines()
    assert header.split() == ["#", "time", "agent", "tool", "outcome", "target", "why", "ms"]
    assert first.split()[2:] == ["agent_a", "Read", "ok", "/ws/a.txt", "inside", "1.5"]
    assert "/etc/\\x1b]0;evil\\x07\\x9b2J\\u202e[red]x[/red]\\x7f" in second
    assert "".join(shown.splitlines()).isprintable()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_long_names_leave_room_for_the_target(place, monkeypatch, width):
    long = "mcp__a_server_with_a_long_name__and_a_tool_with_one_that_is_longer_still" * 2
    place.append(replace(EVENT, agent="agent_" * 20, tool=long, target="/ws/src/application/main.py"))

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(module.sys, "stdout", terminal)
    audit.main(["--workspace", place.workspace, "--state", place.state], standalone_mode=False)

    lines = terminal.getvalue().splitlines()
    header = lines[0]
    assert max(map(len, lines)) <= width
    start, end = header.index("target"), header.index("why") if "why" in header else header.rindex("ms")
    target = "".join(line[start : end - 2].strip() for line in lines[1:])
    assert target.startswith("/ws/src/application/main.py"[:26])
    assert end - start >= 13
    assert "ok" in lines[1]
    assert "1.5" in lines[1]


def test_last_tool_and_outcome_choose(place):
    place.append(EVENT, DENIED, EVENT)

    def numbers(*arguments: str) -> list[int]:
        return [json.loads(line)["seq"] for line in place.run("--json", *arguments).stdout.splitlines()]

    assert numbers("--last", "1") == [3]
    assert numbers("--tool", "Edit") == [2]
    assert numbers("--outcome", "ok") == [1, 3]
    assert numbers("--outcome", "ok", "--last", "1") == [3]


def test_follow_prints_what_comes_later_and_ends_quietly_when_interrupted(place, monkeypatch):
    place.append(EVENT)
    steps = [lambda: place.append(DENIED)]

    def pause(_seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop()()

    monkeypatch.setattr(module, "read", lambda *args, **options: read(*args, **options, pause=pause))
    result = place.run("--follow", "--json")
    assert [json.loads(line)["seq"] for line in result.stdout.splitlines()] == [1, 2]
    assert (result.exit_code, result.stderr) == (0, "")


def test_verify_of_an_untouched_log_exits_0(place):
    place.append(EVENT, EVENT)
    result = place.run("--verify")
    assert (result.exit_code, result.stdout) == (0, f"2 events: hash chain verified ({place.folder})\n")


def test_verify_of_a_changed_log_names_the_line_and_exits_1(place):
    place.append(EVENT, EVENT)
    with open(place.log, "r+b") as file:
        raw = file.read().replace(b"/ws/a.txt", b"/ws/b.txt", 1)
        file.seek(0)
        file.write(raw)
    result = place.run("--verify")
    assert result.stdout.splitlines() == [
        "problem    line 1: was changed: its content and its hash do not agree",
        f"2 events: the log was modified ({place.folder})",
    ]
    assert result.exit_code == 1
    as_json = place.run("--verify", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout) == {
        "ok": False,
        "events": 2,
        "problems": [{"line": 1, "what": "was changed: its content and its hash do not agree"}],
        "recovered": [],
    }


def test_verify_tells_what_a_killed_writer_left_and_exits_0(place):
    place.append(EVENT)
    with open(place.log, "ab") as file:
        file.write(b"{")
    place.append(EVENT)
    result = place.run("--verify")
    assert result.stdout.splitlines() == [
        "recovered  line 2: a writer was killed in the middle of the line; the next one closed it off",
        f"3 events: hash chain verified ({place.folder})",
    ]
    assert result.exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("--verify",), ("--json",), ("--follow",)])
def test_no_log_exits_2_and_says_where_to_look(place, arguments):
    result = place.run(*arguments)
    message = (
        f"toolyard audit: There is no audit log in {place.folder}. It begins with the first tool call in the "
        "workspace; check --workspace and --state.\n"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)
    assert not os.path.exists(place.state)


def test_no_log_is_an_object_too_when_json_was_asked_for(place):
    result = place.run("--verify", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"], "no audit log" in told["error"]) == (2, False, True)


def test_verify_together_with_a_choice_of_lines_is_refused(place):
    result = place.run("--verify", "--last", "3")
    assert result.exit_code == 2
    assert "--verify checks the whole log" in result.stderr


def test_the_workspace_is_the_current_folder_unless_told_and_the_state_folder_is_the_users(place, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", place.state)
    monkeypatch.chdir(place.workspace)
    with AuditLog.open(state_dir(os.path.join(place.state, "toolyard"), place.workspace)) as log:
        log.append(EVENT)
    result = CliRunner().invoke(audit, ["--verify"])
    assert (result.exit_code, result.stdout[:8]) == (0, "1 event:")


def test_the_workspace_may_come_from_the_configuration_file(place, tmp_path):
    config = tmp_path / "toolyard.yaml"
    config.write_text("toolyard: {workspace: ws}\n")
    place.append(EVENT)
    result = CliRunner().invoke(audit, ["--config", str(config), "--state", place.state, "--verify"])
    assert (result.exit_code, result.stdout[:8]) == (0, "1 event:")


@pytest.mark.parametrize(("chosen", "count"), [([], 2), (["--agent", "agent_a"], 1), (["--agent", "agent_b"], 1)])
def test_the_agents_of_a_team_have_one_log_and_one_can_be_asked_for(place, tmp_path, chosen, count):
    config = tmp_path / "toolyard.yaml"
    config.write_text("toolyard: {workspace: ws}\nagents: [{id: agent_a}, {id: agent_b, backend: {cwd: other}}]\n")
    place.append(EVENT)
    place.append(replace(EVENT, agent="agent_b"))
    result = CliRunner().invoke(audit, ["--config", str(config), "--state", place.state, "--json", *chosen])
    agents = [json.loads(line)["agent"] for line in result.stdout.splitlines()]
    assert agents == (chosen[1:] or ["agent_a", "agent_b"])
    assert len(agents) == count


def test_help_shows_examples():
    result = CliRunner().invoke(audit, ["--help"])
    assert "toolyard audit --follow --outcome denied" in result.stdout
