"""Five CLIs at work with our tools: what their models see, what is done, and what is left of it."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from tests.e2e.drivers.clients import CLIENTS
from tests.e2e.drivers.decoys import WORD
from tests.e2e.drivers.island import interfaces
from tests.e2e.drivers.trials import Scenario, Trial
from toolyard.app.toolsets import Toolset
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers import ResultStatus, SessionStarted, Status, TextDelta, ToolCall, ToolResult, Usage
from toolyard.drivers.registry import driver_of
from toolyard.testing.mock_model import Call, Say

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "drive-isolation.md"
NAMES = (
    *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Bash", "BashOutput", "KillShell", "Grep", "Glob", "LS"),
)
RENAMING = ("gemini", "qwen")
"""They have `read_file` themselves and would lose ours."""
REFUSED = {
    "gemini": 'Tool "mcp_toolyard_write_file" not found',
    "claude": "/ws/a.txt is refused: plan mode changes nothing. Read, search and describe the change instead.",
    "codex": "unsupported call",
    "qwen": "that permission was declined",
    "opencode": "unavailable tool",
}
"""What the model is shown that writes where nothing may be written. Most CLIs do not even offer it; Claude Code asks
our permission tool, which names the file."""
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LONG = "".join(f"{number:07}\n" for number in range(1 << 18))
SAID = LONG[:100_000]
"""As much as every CLI prints before it exits: they do not wait until all of it was read."""


async def answered(trial: Trial) -> bool:
    return len(trial.questions) == 1


TOUR = Scenario(
    (
        Call("Write", {"file_path": "a.txt", "content": "one\ntwo\n"}),
        Call("Read", {"file_path": "a.txt"}),
        Call("Read", {"file_path": "/etc/passwd"}),
        Call("Write", {"file_path": "../outside.txt", "content": "x"}),
        Say("All is well."),
    )
)
PLAN = Scenario(
    (Call("write_file", {"path": "a.txt", "content": "x"}), Call("read_file", {"path": "AGENTS.md"})),
    mode=PermissionMode.PLAN,
    tools=Toolset.REFERENCE,
    shares_host=True,
)
LARGE = Scenario(
    (Call("Write", {"file_path": "large.txt", "content": LONG}), Say(SAID)),
    shares_host=True,
    wrapped="yes 'all is well' | head -c 10485760 >&2",
)
ASKED = Scenario(
    (Call("Write", {"file_path": "a.txt", "content": "yes"}), Call("Write", {"file_path": "b.txt", "content": "no"})),
    mode=PermissionMode.DEFAULT,
    ask=answered,
    clis=("claude",),
)
KINDS = Scenario(
    (
        Call("Bash", {"command": "echo boom; exit 3"}),
        Call("Bash", {"command": f"echo {PICTURE} | base64 -d > dot.png"}),
        Call("Read", {"file_path": "dot.png"}),
        Call("Read", {"file_path": "nothing.txt"}),
        Say("All is well."),
    ),
    shares_host=True,
)
UNNAMED = Scenario(TOUR.steps[:2], names_model=False, shares_host=True)
BATCH = (TOUR, PLAN, LARGE, ASKED, UNNAMED, KINDS)


@pytest.fixture
def tour(trials, cli) -> Trial:
    return trials.of(BATCH, TOUR, cli)


def test_it_attaches_and_succeeds(tour, cli):
    ended = tour.finished
    assert (ended.status, ended.attached, ended.exit_code) == (Status.SUCCEEDED, True, 0), ended
    assert (ended.text, ended.reason) == ("All is well.", "")
    assert [started.cli for started in tour.told(SessionStarted)] == [cli]


def test_the_model_sees_our_tools_and_only_those(tour, cli):
    client = tour.client
    assert sorted(tour.model.tools) == sorted({client.prefix + name for name in NAMES} | client.own_tools)


def test_the_page_names_the_tools_that_a_cli_keeps(cli):
    table = PAGE.read_text().split("| what is left |")[1].split("\n\n")[0]
    (row,) = re.findall(rf"^\| {driver_of(cli).title} \|.*$", table, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row.split("|")[3])) == CLIENTS[cli].own_tools


def test_a_file_is_written_through_our_tool_and_read_back(tour, cli):
    assert (tour.workspace / "a.txt").read_text() == "one\ntwo\n"
    written, read, *_ = tour.model.words
    assert "Created a.txt (2 lines, 8 bytes)." in written
    assert "     1\tone\n     2\ttwo" in read


def test_a_refused_path_gives_the_model_an_error_it_can_act_on(tour, cli):
    *_, absolute, above = tour.model.words
    for words, path in ((absolute, "Reading /etc/passwd"), (above, f"Writing {tour.base}/outside.txt")):
        assert f"{path} is outside the workspace {tour.workspace}" in words
        assert f"Use a path under {tour.workspace}." in words
        assert "root:" not in words
    assert not (tour.base / "outside.txt").exists()


def test_every_call_is_told_under_our_name_with_its_end(tour, cli):
    calls, results = tour.told(ToolCall), tour.told(ToolResult)
    assert [(call.name, call.ours) for call in calls] == [(step.tool, True) for step in TOUR.steps[:-1]]
    assert calls[0].arguments == TOUR.steps[0].arguments
    assert [(result.id, result.ok) for result in results] == [
        (call.id, ok) for call, ok in zip(calls, (True, True, False, False), strict=True)
    ]
    assert ["is outside the workspace" in result.text for result in results] == [False, False, True, True]
    assert "".join(piece.text for piece in tour.told(TextDelta)) == "All is well."


def test_results_say_what_our_server_answered_whatever_the_cli_repeats_of_it(trials, cli):
    ran, written, seen, missing = trials.of(BATCH, KINDS, cli).told(ToolResult)
    ok, failed = ResultStatus.OK, ResultStatus.FAILED
    assert [each.status for each in (ran, written, seen, missing)] == [failed, ok, ok, failed]
    assert (ran.exit_code, ran.structured["stdout"], ran.text) == (3, "boom\n", "boom\nExit code 3")
    assert [(image.data, image.media_type) for image in seen.images] == [(PICTURE, "image/png")]
    assert missing.structured["error"]["kind"] == "tool"
    assert all(each.seconds for each in (ran, written, seen, missing))


@pytest.mark.parametrize("cli", ["gemini", "claude", "codex"])
def test_the_cost_of_a_run_is_there_where_the_price_of_its_model_is_known(trials, cli):
    kinds = trials.of(BATCH, KINDS, cli)
    assert kinds.finished.tokens.input
    assert kinds.finished.cost
    assert kinds.told(Usage)[-1].cost == kinds.finished.cost


def test_nothing_of_other_settings_is_started_read_or_changed(tour, cli, trials):
    assert trials.decoys.taken() == []
    assert WORD not in json.dumps([request.body for request in tour.model.requests])
    assert trials.decoys.changed(trials.home) == []
    assert trials.decoys.changed(tour.workspace) == ["a.txt"]


def test_no_file_of_the_run_holds_its_token_or_the_key(tour, cli):
    assert len(tour.token) > 30
    assert tour.in_files == []


def test_nothing_is_left_of_a_run(tour, cli):
    assert tour.folder
    assert tour.left == []


def test_it_all_happens_without_a_network(tour, cli, island):
    if island.why_not:
        pytest.skip(island.why_not)

    async def seen() -> list[str]:
        return interfaces()

    assert island.run(seen(), 5) == ["lo"]


def test_in_plan_mode_writing_is_refused_and_reading_is_not(trials, cli):
    plan = trials.of(BATCH, PLAN, cli)
    assert plan.finished.status is Status.SUCCEEDED
    refused, read = plan.model.words
    assert REFUSED[cli] in refused
    assert WORD in read
    assert trials.decoys.changed(plan.workspace) == []
    assert plan.left == []


def test_tools_with_the_name_of_a_builtin_are_offered_under_another_and_told_under_ours(trials, cli):
    plan = trials.of(BATCH, PLAN, cli)
    offered = {name.removeprefix(plan.client.prefix) for name in plan.model.tools} - plan.client.own_tools
    read = "ws_read_file" if cli in RENAMING else "read_file"
    assert [name for name in sorted(offered) if name.endswith(f"{read}")] == [read]
    assert offered >= {"read_text_file", "search_files"}
    assert plan.told(ToolCall)[-1].name == "read_file"


def test_lines_of_2_mb_and_10_mb_on_stderr_stall_nothing(trials, cli):
    large = trials.of(BATCH, LARGE, cli)
    assert large.finished.status is Status.SUCCEEDED, large.finished
    assert [result.ok for result in large.told(ToolResult)] == [True], large.model.words
    assert (large.workspace / "large.txt").read_text() == LONG
    assert large.told(ToolCall)[0].arguments["content"] == LONG
    assert large.finished.text == SAID
    assert large.left == []


def test_the_model_of_the_cli_is_used_where_none_is_named(trials, cli):
    unnamed = trials.of(BATCH, UNNAMED, cli)
    assert unnamed.finished.status is Status.SUCCEEDED, unnamed.finished
    assert [result.ok for result in unnamed.told(ToolResult)] == [True, True]


@pytest.mark.parametrize("cli", ["claude"])
def test_claude_code_asks_our_permission_tool_which_the_model_never_sees(trials, cli):
    asked = trials.of(BATCH, ASKED, cli)
    assert asked.finished.status is Status.SUCCEEDED
    assert [result.ok for result in asked.told(ToolResult)] == [True, False]
    assert len(asked.questions) == 2
    assert (asked.workspace / "a.txt").read_text() == "yes"
    assert not (asked.workspace / "b.txt").exists()
    assert not [name for name in asked.model.tools if "approve" in name]
