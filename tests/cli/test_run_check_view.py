"""How a check of a run is shown."""

import io
import json

import pytest
from rich.console import Console

from toolyard.cli.run import check_view
from toolyard.cli.run.check_view import show_check
from toolyard.team.check.report import AgentCheck, CheckReport, Finding, ServerCheck, ServerState

SERVERS = (
    ServerCheck("mail", ServerState.KNOWN, 1),
    ServerCheck("bank", ServerState.KNOWN, 3, "It did not answer."),
    ServerCheck("new", ServerState.UNKNOWN),
    ServerCheck("down", ServerState.FAILED, note="cannot be started: there is no program 'x'"),
    ServerCheck("ghost", ServerState.UNUSABLE, note="is only a name."),
)
AGENT = AgentCheck(
    id="a",
    backend="Gemini API",
    model="gemini-2.5-flash",
    access="key from GEMINI_API_KEY",
    workspace="/work/[bold]a",
    folder="is created",
    mode="strict",
    rights="reads and writes in its folder, nothing outside it",
    walls="bubblewrap, no network",
    servers=SERVERS,
    tools=("read_file", "execute_python"),
    tool_tokens=900,
    prompt_tokens=600,
    file_tools=4463,
    file_tokens=1_000_000,
)
READY = CheckReport(
    "/team.yaml", "filesystem_first", "/team", (AGENT,), {"rounds": 4, "seconds": 3600.0, "cost": 0.5}
)
STOPPED = CheckReport(
    "/team.yaml",
    "context_based",
    "/team",
    (AgentCheck("b"),),
    problems=(Finding("There is no key.", "Set GEMINI_API_KEY.", "b"),),
    notices=(Finding("1 server was never asked."),),
)
TOLD = """\
configuration: /team.yaml
execution mode: filesystem_first: tools are files
shared folder: /team
limits: 4 rounds, 3600 seconds, $0.50 at most

agent a
  model: Gemini API, gemini-2.5-flash
  access: key from GEMINI_API_KEY
  folder: /work/[bold]a is created
  may: strict: reads and writes in its folder, nothing outside it
  sandbox: bubblewrap, no network
  servers: mail (1 tool), bank (3 tools, failed when it was last asked: It did not answer), \
new (never asked), down (failed when it was last asked: cannot be started: there is no program 'x'), \
ghost (cannot be had)
  tools: read_file, execute_python
  context: 1,500 tokens before the task: 900 for tools, 600 for the system prompt
  as files: 4,463 tools, which would cost 1,000,000 tokens in the context but cost none as files

Ready to run.
"""


def test_in_a_pipe_it_is_plain_lines(capsys):
    show_check(READY)

    assert capsys.readouterr().out == TOLD


def test_problems_and_notices_say_whose_they_are_and_what_to_do(capsys):
    show_check(STOPPED)

    lines = capsys.readouterr().out.splitlines()
    assert "problem  b: There is no key. (Set GEMINI_API_KEY.)" in lines
    assert "notice   1 server was never asked." in lines
    assert lines[-1] == "Not ready: 1 problem stops the run."


def test_whose_a_problem_is_is_not_said_twice(capsys):
    problems = (Finding('agent "b" has no backend.', agent="b"), Finding("agent c has no tools.", agent="c"))

    show_check(CheckReport("/team.yaml", "context_based", "/team", problems=problems))

    lines = capsys.readouterr().out.splitlines()
    assert 'problem  agent "b" has no backend.' in lines
    assert "problem  agent c has no tools." in lines


def test_as_json_it_is_all_there_with_the_sums(capsys):
    show_check(READY, wants_json=True)

    told = json.loads(capsys.readouterr().out)
    assert told["ready"] is True
    assert told["agents"][0]["tokens"] == 1500
    assert told["agents"][0]["servers"][4] == {
        "name": "ghost",
        "state": "cannot be had",
        "tools": 0,
        "note": "is only a name.",
    }


@pytest.mark.parametrize(
    ("report", "told"), [(READY, "Ready to run."), (STOPPED, "Not ready: 1 problem stops the run.")]
)
def test_on_a_terminal_it_is_a_table_that_takes_no_path_for_markup(monkeypatch, report, told):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, width=200, force_terminal=True))
    monkeypatch.setattr(check_view.sys.stdout, "isatty", lambda: True)

    show_check(report)

    assert told in screen.getvalue()
    assert ("/work/[bold]a is created" in screen.getvalue()) == (report is READY)
    assert ("→ Set GEMINI_API_KEY." in screen.getvalue()) == (report is STOPPED)


def test_what_a_name_might_do_to_the_terminal_is_shown_not_done(capsys):
    show_check(CheckReport("/team\x1b[2J.yaml", "context_based", "/team"))

    assert "\x1b" not in capsys.readouterr().out


def test_hundreds_of_servers_and_tools_are_counted_not_listed(capsys):
    servers = tuple(ServerCheck(f"server-{number}", ServerState.KNOWN, 1) for number in range(500))
    tools = tuple(f"tool-{number}" for number in range(5000))

    show_check(CheckReport("", "context_based", "/team", (AgentCheck("a", servers=servers, tools=tools),)))

    told = capsys.readouterr().out
    assert len(told) < 2_000
    assert "and 490 more" in told
    assert "and 4,988 more" in told
