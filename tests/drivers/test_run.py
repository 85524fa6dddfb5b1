"""A run from its first message to its last, with a CLI that does as it is told."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import pathlib
from dataclasses import replace

import pytest

from tests.drivers.scripted import KEY, PYTHON, ScriptedDriver, messages_of, processes_of_run, script, variables
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers.mcp_host import Host
from toolyard.drivers.messages import (
    Fault,
    Finished,
    ResultStatus,
    SessionStarted,
    Status,
    TextDelta,
    Tokens,
    ToolResult,
    Usage,
    as_json,
    from_json,
)
from toolyard.drivers.run import CliRun, DriveOptions
from toolyard.storage.audit_reader import read

SECONDS = 30
ATTACH = (["connect"], ["list"])
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def workspace(tmp_path) -> pathlib.Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def started(tmp_path, workspace, monkeypatch):
    """Make a run of a script: `started(["say", "hello"], ..., timeout=5)`."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))

    def make(*steps, host=None, driver=None, **options) -> CliRun:
        options = {"program": PYTHON, "variables": variables(), "state": str(tmp_path / "state"), **options}
        return CliRun(driver or ScriptedDriver(), script(*steps), DriveOptions(str(workspace), **options), host)

    yield make
    assert list(folder.rglob("toolyard-drive-*")) == [], "a run left its folder"


def end_of(run: CliRun) -> Finished:
    return messages_of(run)[-1]


def test_a_run_writes_through_our_tools_and_says_what_it_does(started, workspace):
    run = started(
        *ATTACH,
        ["call", "Write", {"file_path": "a.txt", "content": "hello\n"}],
        ["call", "Read", {"file_path": "a.txt"}],
        ["say", "Done."],
        ["over"],
    )
    told = messages_of(run)
    assert [message.type for message in told] == [
        *("session_started", "tool_call", "tool_result", "tool_call", "tool_result", "text_delta", "finished")
    ]
    assert (workspace / "a.txt").read_text() == "hello\n"
    ended = replace(told[-1], seconds=0.0, snapshot="", snapshot_before="")
    assert ended == Finished(Status.SUCCEEDED, text="Done.", attached=True, exit_code=0, changed=("a.txt",))


def test_a_tool_whose_name_the_cli_has_itself_goes_by_another_one(started):
    first = messages_of(started(*ATTACH, ["over"]))[0]
    assert isinstance(first, SessionStarted)
    served = first.session.split(",")
    assert "yard_Bash" in served
    assert "Bash" not in served
    result = messages_of(started(*ATTACH, ["call", "yard_Bash", {"command": "echo $((6*7))"}], ["over"]))[2]
    assert isinstance(result, ToolResult)
    assert "42" in result.text


def test_who_never_listed_our_tools_was_not_attached_whatever_it_says(started):
    ended = end_of(started(["connect"], ["say", "Done: a.txt written."], ["over"]))
    assert (ended.status, ended.attached) == (Status.NOT_ATTACHED, False)
    assert "never listed" in ended.reason


def test_only_the_token_of_the_run_attaches_it(started):
    with Host() as host:
        other = started(*ATTACH, ["over"], host=host)
        wrong = started(["connect", "another-token"], ["list"], ["over"], host=host)
        assert end_of(other).attached
        ended = end_of(wrong)
    assert (ended.attached, ended.status) == (False, Status.FAILED)
    assert "before it attached to our tools" in ended.reason


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([*ATTACH, ["say", "hm"]], "without reporting that it was done"),
        ([*ATTACH, ["over"], ["exit", 3]], "exited with 3"),
        ([*ATTACH, ["error", "429 Too Many Requests"], ["over"]], "429"),
        ([*ATTACH, ["open_call", "Write"], ["over"]], "while a tool was being called: Write"),
        ([["exit", 0]], "without reporting that it was done"),
        ([*ATTACH, ["raw", "nonsense {", 3]], "without reporting that it was done"),
    ],
)
def test_what_speaks_against_success_is_a_failure_with_its_reason(started, steps, reason):
    ended = end_of(started(*steps))
    assert ended.status is Status.FAILED
    assert reason in ended.reason


def test_a_missing_cli_is_told_with_the_line_that_installs_it(started):
    told = messages_of(started(program="no-such-program"))
    assert [type(message) for message in told] == [Fault, Finished]
    assert told[-1].status is Status.FAILED
    assert "npm install -g scripted-cli" in told[-1].hint


def test_a_workspace_that_is_not_there_ends_the_run_with_words(started, tmp_path):
    run = started(["over"])
    run._options = DriveOptions(str(tmp_path / "nowhere"), program=PYTHON, variables=variables())
    ended = end_of(run)
    assert ended.status is Status.FAILED
    assert ended.reason == f"The workspace {tmp_path / 'nowhere'} is not a folder."
    assert ended.hint == "Create it, or name another one."


def test_a_workspace_that_is_a_file_is_told_as_such(started, tmp_path):
    (tmp_path / "file").touch()
    run = started(["over"])
    run._options = DriveOptions(str(tmp_path / "file"), program=PYTHON, variables=variables())
    told = messages_of(run)
    assert told[-1].reason == told[0].message == f"The workspace {tmp_path / 'file'} is a file, not a folder."
    assert told[-1].hint == "Name the folder that contains it."


def test_the_deadline_ends_it_with_all_its_children(started):
    ended = end_of(started(*ATTACH, ["child"], ["ignore"], ["say", "hm"], ["wait"], timeout=3.0))
    assert (ended.status, ended.text) == (Status.TIMED_OUT, "hm")


def test_a_cancelled_run_says_so_last(started):
    run = started(*ATTACH, ["child"], ["say", "hm"], ["wait"])

    async def cancelled():
        told = []
        async for message in run:
            told.append(message)
            if isinstance(message, TextDelta):
                run.cancel()
        return told

    told = asyncio.run(asyncio.wait_for(cancelled(), SECONDS))
    assert told[-1].status is Status.CANCELLED
    assert processes_of_run(run.id) == []


def test_who_leaves_the_loop_leaves_nothing_behind(started):
    run = started(*ATTACH, ["child"], ["say", "hm"], ["wait"])

    async def left():
        async with run:
            async for message in run:
                if isinstance(message, TextDelta):
                    break

    asyncio.run(asyncio.wait_for(left(), SECONDS))
    assert processes_of_run(run.id) == []


def test_a_cancelled_task_leaves_nothing_behind(started):
    run = started(*ATTACH, ["child"], ["say", "hm"], ["wait"])
    reached = asyncio.Event()

    async def listened():
        async for message in run:
            if isinstance(message, TextDelta):
                reached.set()

    async def main():
        task = asyncio.create_task(listened())
        await reached.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert processes_of_run(run.id) == []


def test_nothing_of_the_user_reaches_the_cli_but_what_is_named(started, tmp_path):
    given = variables(**{KEY: "the-key", "AWS_SECRET_ACCESS_KEY": "no", "TOOLYARD_TOKEN": "no"})
    end_of(started(*ATTACH, ["environment", str(tmp_path / "seen")], ["over"], variables=given))
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen[KEY] == "the-key"
    assert {"AWS_SECRET_ACCESS_KEY", "TOOLYARD_TOKEN"}.isdisjoint(seen)
    assert seen["HOME"] != given["HOME"]


def test_no_file_of_the_run_holds_its_token_or_key(started, tmp_path):
    go, up = tmp_path / "go", tmp_path / "up"
    run = started(
        *(*ATTACH, ["environment", str(up)], ["say", "up"], ["wait", str(go)], ["over"]),
        variables=variables(**{KEY: "the-very-key"}),
    )

    async def looked():
        found, token = [], ""
        async for message in run:
            if isinstance(message, TextDelta):
                seen = json.loads(up.read_text())
                token, folder = seen["TOOLYARD_RUN_TOKEN"], seen["HOME"]
                files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
                assert any(path.name == "settings.json" for path in files)
                found = [path for path in files for word in (token, "the-very-key") if word in path.read_text()]
                go.touch()
        return found, token

    found, token = asyncio.run(asyncio.wait_for(looked(), SECONDS))
    assert len(token) > 30
    assert found == []


def test_the_token_is_dead_after_its_run(started, tmp_path):
    with Host() as host:
        end_of(started(*ATTACH, ["environment", str(tmp_path / "seen")], ["over"], host=host))
        token = json.loads((tmp_path / "seen").read_text())["TOOLYARD_RUN_TOKEN"]
        ended = end_of(started(["connect", token], ["list"], ["over"], host=host))
    assert (ended.attached, ended.status) == (False, Status.FAILED)


def test_a_run_whose_host_ends_before_it_has_failed_at_once(started):
    host = Host()
    run = started(*ATTACH, ["say", "hm"], ["wait"], host=host)

    async def closed():
        told = []
        async for message in run:
            told.append(message)
            if isinstance(message, TextDelta):
                await asyncio.to_thread(host.close)
        return told

    ended = asyncio.run(asyncio.wait_for(closed(), SECONDS))[-1]
    assert (ended.status, ended.reason) == (Status.FAILED, "Our server ended before the run did.")
    assert processes_of_run(run.id) == []


def test_runs_share_a_host_each_with_its_own_workspace(started, tmp_path):
    async def both(host):
        runs = []
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            step = ["call", "Write", {"file_path": "mine.txt", "content": name}]
            run = started(*ATTACH, step, ["over"], host=host)
            run._options = DriveOptions(
                str(folder), program=PYTHON, variables=variables(), state=str(tmp_path / "state")
            )
            runs.append(run.finish())
        return await asyncio.gather(*runs)

    with Host() as host:
        ended = asyncio.run(asyncio.wait_for(both(host), SECONDS))
    assert [end.status for end in ended] == [Status.SUCCEEDED] * 2
    assert [(tmp_path / name / "mine.txt").read_text() for name in ("one", "two")] == ["one", "two"]


def test_the_cli_is_told_no_before_it_calls_what_the_policy_refuses_anyway(started, workspace):
    asked = [
        ["call", "approve", {"tool_name": f"mcp_{tool}", "input": {"file_path": "a"}}]
        for tool in ("Write", "Read", "Nonsense")
    ]
    told = messages_of(started(*ATTACH, *asked, ["over"], mode=PermissionMode.PLAN))
    answers = [json.loads(message.text) for message in told if isinstance(message, ToolResult)]
    assert [answer["behavior"] for answer in answers] == ["deny", "allow", "deny"]
    assert answers[1]["updatedInput"] == {"file_path": "a"}


def test_what_a_failed_tool_said_is_told_where_the_cli_keeps_it_to_itself(started):
    read, wrong = {"file_path": "/etc/passwd"}, {"file_path": "nothing.txt"}
    calls = [["quiet_call", "Read", given] for given in (read, wrong, read)]
    told = messages_of(started(*ATTACH, *calls, ["call", "Read", wrong], ["quiet_call", "Read", {}], ["over"]))
    texts = [message.text for message in told if isinstance(message, ToolResult)]
    assert [text.split(" is ")[0] for text in texts[:3:2]] == ["Reading /etc/passwd"] * 2
    assert "nothing.txt" in texts[1]
    assert "MCP" not in texts[1]  # our own words, as we said them
    assert texts[1] in texts[3]
    assert "file_path: is required" in texts[4]


def test_a_tool_result_has_its_status_duration_data_and_images(started, workspace):
    (workspace / "dot.png").write_bytes(PNG)
    calls = [
        ["quiet_call", "yard_Bash", {"command": "echo boom; sleep 0.2; exit 3"}],
        ["quiet_call", "Read", {"file_path": "/etc/passwd"}],
        ["call", "Read", {"file_path": "dot.png"}],
    ]
    told = messages_of(started(*ATTACH, *calls, ["over"]))
    ran, refused, seen = [message for message in told if isinstance(message, ToolResult)]

    assert (ran.status, ran.exit_code, ran.structured["stdout"]) == (ResultStatus.FAILED, 3, "boom\n")
    assert 0.2 <= ran.seconds < told[-1].seconds
    assert refused.status is ResultStatus.REFUSED
    assert refused.structured["error"]["kind"] == "security"
    assert seen.ok
    assert [(base64.b64decode(image.data), image.media_type) for image in seen.images] == [(PNG, "image/png")]
    assert [from_json(json.loads(json.dumps(as_json(each)))) for each in told] == told


@pytest.mark.parametrize(
    ("model", "told_cost", "cost"),
    [
        ("gemini-2.5-flash", None, pytest.approx(0.0003 * 800 / 1000 + 0.00003 * 200 / 1000 + 0.0025 * 100 / 1000)),
        ("gemini-2.5-flash", 0.0, pytest.approx(0.000496)),
        ("gemini-2.5-flash", 0.5, 0.5),
        ("a-model-of-mine", None, None),
        ("a-model-of-mine", 0.0, 0.0),
    ],
)
def test_a_run_whose_cli_tells_no_cost_is_priced_by_the_list(started, model, told_cost, cost):
    usage = {"model": model, "input": 1000, "cached": 200, "output": 100, "cost": told_cost}
    *_, told, finished = messages_of(started(*ATTACH, ["usage", usage], ["over"]))
    assert told == Usage(Tokens(1000, 100, 200), cost)
    assert finished.cost == cost


@pytest.mark.parametrize("says", [True, False])
def test_who_started_the_run_is_asked_where_the_policy_says_so(started, workspace, says):
    questions = []

    async def ask(action, decision):
        questions.append((action.tool, os.path.basename(action.path)))
        return says

    step = ["call", "Write", {"file_path": "a.txt", "content": "x"}]
    told = messages_of(started(*ATTACH, step, ["over"], mode=PermissionMode.DEFAULT, ask=ask))
    assert questions == [("Write", "a.txt")]
    assert next(message for message in told if isinstance(message, ToolResult)).ok is says
    assert (workspace / "a.txt").exists() is says


def test_a_plain_function_is_asked_as_well(started, workspace):
    step = ["call", "Write", {"file_path": "a.txt", "content": "x"}]
    end_of(started(*ATTACH, step, ["over"], mode=PermissionMode.DEFAULT, ask=lambda action, decision: True))
    assert (workspace / "a.txt").read_text() == "x"


def test_a_function_that_fails_when_it_is_asked_has_said_no_and_is_told(started, workspace):
    def ask(action, decision):
        raise KeyError("window")

    step = ["call", "Write", {"file_path": "a.txt", "content": "x"}]
    told = messages_of(started(*ATTACH, step, ["over"], mode=PermissionMode.DEFAULT, ask=ask))
    fault = Fault(
        "`ask` raised KeyError: 'window', so the action was denied.",
        "Fix the function: it must return True or False.",
    )
    assert fault in told
    result = next(message for message in told if isinstance(message, ToolResult))
    assert not result.ok
    assert told.index(fault) < told.index(result)
    assert told[-1].succeeded
    assert not (workspace / "a.txt").exists()


def test_the_audit_log_names_the_run_and_its_cli(started, tmp_path):
    run = started(*ATTACH, ["call", "Write", {"file_path": "a.txt", "content": "x"}], ["over"])
    messages_of(run)

    (state,) = (tmp_path / "state").iterdir()
    (session,) = {line.event.session for line in read(str(state)) if line.event.tool == "Write"}

    assert session == f"{ScriptedDriver.program}-{run.id}"
