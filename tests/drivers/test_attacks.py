"""Runs under attack: by what the CLI prints, by what its caller hands on, by whoever stands beside it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import tempfile
import threading
import time
import tracemalloc

import pytest

from tests.drivers.scripted import KEY, PYTHON, ScriptedDriver, messages_of, processes_of_run, script, variables
from toolyard.core.limits import MIB
from toolyard.core.permission_modes import PermissionMode
from toolyard.core.threaded_open import open_in_thread
from toolyard.drivers import run as drivers_run
from toolyard.drivers.driver import MAX_TEXT_CHARS, OutputState, RunSpec
from toolyard.drivers.mcp_host import Host
from toolyard.drivers.messages import Fault, Status, TextDelta, ToolCall, ToolResult, as_json
from toolyard.drivers.output_parser import OutputParser
from toolyard.drivers.process import CliProcess, ProcessSpec
from toolyard.drivers.registry import DRIVERS
from toolyard.drivers.run import CliRun, DriveOptions

SECONDS = 40
ATTACH = (["connect"], ["list"])
SECRET = "sk-a-very-long-secret"


@pytest.fixture
def started(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))

    def make(*steps, host=None, prompt=None, workspace=tmp_path / "ws", **options) -> CliRun:
        given = {"program": PYTHON, "variables": variables(**{KEY: SECRET}), "state": str(tmp_path / "state")}
        settings = DriveOptions(str(workspace), **{**given, **options})
        return CliRun(ScriptedDriver(), script(*steps) if prompt is None else prompt, settings, host)

    yield make
    assert list(tmp_path.rglob("toolyard-drive-*")) == [], "a run left its folder"


def test_a_line_of_brackets_neither_ends_the_run_nor_holds_up_the_loop(started):
    run = started(
        *(*ATTACH, ["raw", "[", 50_000], ["raw", "\n", 1]),
        *(["raw", '{"a":[0', 1], ["raw", ",[]", 4_000_000], ["raw", "]}\n", 1], ["say", "still here"], ["over"]),
    )
    longest = 0.0

    async def listened():
        nonlocal longest

        async def beating():
            nonlocal longest
            while True:
                began = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - began)

        beat = asyncio.create_task(beating())
        told = [message async for message in run]
        beat.cancel()
        return told

    told = asyncio.run(asyncio.wait_for(listened(), SECONDS))
    assert told[-1].status is Status.SUCCEEDED
    assert told[-1].text == "still here"
    assert [message.message for message in told if isinstance(message, Fault)] == [
        "A message of the CLI is nested too deeply and was dropped.",
        "A message of the CLI has too many parts and was dropped.",
    ]
    assert longest < 3, "reading it all takes several times as long"


def test_arguments_that_are_nested_deep_are_told_as_far_as_they_can_be_written_down():
    deep = {"type": "tool_use", "tool_name": "Read", "tool_id": "1", "parameters": {}}
    inside = deep["parameters"]
    for _ in range(300):
        inside["a"] = [{}]
        inside = inside["a"][0]
    reader = DRIVERS["gemini"].reader("run", ["Read"])
    (call,) = reader.read(OutputParser(()).parse_record(json.dumps(deep).encode()))
    assert isinstance(call, ToolCall)
    assert "…" in json.dumps(as_json(call), ensure_ascii=False)


def test_what_is_no_number_of_json_is_none_of_ours_either():
    assert OutputParser(()).parse_record(b'{"a": NaN, "b": [-Infinity, 1]}') == {"a": None, "b": [None, 1]}


def test_no_message_holds_a_key_or_the_token(started, tmp_path):
    quoted = 'p"ss\\word-of-the-user'
    for secret in (SECRET, quoted):
        steps = (["say", f"it is {secret}"], ["raw", f"noise {secret}\n", 1], ["error", f"bad key {secret}"])
        told = messages_of(started(*ATTACH, *steps, ["exit", 1], variables=variables(**{KEY: secret})))
        assert told[-1].text == "it is ***"
        assert told[-1].reason == "Scripted CLI reports: bad key ***"
        assert not any(secret in repr(message) for message in told)


def test_an_error_in_a_program_is_not_blamed_on_the_machine(started, monkeypatch):
    def wrong(*_):
        raise TypeError("an int was expected")

    with monkeypatch.context() as patch:
        patch.setattr(drivers_run.RunFolder, "write", wrong)
        told = messages_of(started(*ATTACH, ["over"]))
    assert told[-1].reason == "The run could not continue: an int was expected."
    assert "TypeError" in told[-1].hint
    assert "limits of this machine" not in told[-1].hint


def test_whatever_goes_wrong_there_is_a_last_message(started, monkeypatch):
    def none_left(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(drivers_run.RunFolder, "write", none_left)
        told = messages_of(started(*ATTACH, ["over"]))
    assert told[-1].status is Status.FAILED
    assert "Too many open files" in told[-1].reason


def test_the_tools_of_a_run_do_not_reach_its_settings(started, tmp_path):
    """The folder for temporary files may lie in the workspace, or be it."""
    told = messages_of(
        started(*ATTACH, ["call", "Glob", {"pattern": "**/settings.json"}], ["over"], workspace=tmp_path / "tmp")
    )
    (found,) = [message.text for message in told if isinstance(message, ToolResult)]
    assert "settings.json" not in found
    assert told[-1].status is Status.SUCCEEDED


def holders_seen(told: list) -> list[str]:
    """Processes in whose environment a command of the run found its key or its token."""
    (result,) = [message for message in told if isinstance(message, ToolResult)]
    counts = [line.rpartition(":") for line in result.text.splitlines() if line.startswith("/proc/")]
    assert counts, result.text  # it could look
    return [path for path, _, count in counts if count != "0"]


@pytest.mark.parametrize("mode", PermissionMode)
def test_commands_find_the_key_and_the_token_of_their_run_without_a_sandbox_alone(started, mode):
    async def ask(_action, _decision):
        return True

    call = ["call", "yard_Bash", {"command": f"grep -a -c -s -e {KEY}= -e TOOLYARD_RUN_TOKEN= /proc/*/environ"}]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as state:  # `moderate` reaches the usual place for the settings
        told = messages_of(started(*ATTACH, call, ["over"], mode=mode, ask=ask, state=state))
    assert bool(holders_seen(told)) is (mode is PermissionMode.BYPASS)


def test_what_a_thread_made_for_one_who_left_is_closed():
    go, closed = threading.Event(), threading.Event()

    class Thing:
        def close(self) -> None:
            closed.set()

    def make() -> Thing:
        go.wait(SECONDS)
        return Thing()

    async def leaving():
        task = asyncio.create_task(open_in_thread(make))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    asyncio.run(leaving())
    assert closed.wait(SECONDS)


@pytest.mark.parametrize("moment", range(0, 60, 6))
def test_a_run_that_is_cancelled_at_any_moment_leaves_no_thread_folder_or_process(started, moment):
    threads = {thread for thread in threading.enumerate() if thread.name == "toolyard-host"}
    run = started(*ATTACH, ["wait"])

    async def leaving():
        async def listened():
            async for _ in run:
                pass

        task = asyncio.create_task(listened())
        await asyncio.wait({task}, timeout=moment / 100)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(asyncio.wait_for(leaving(), SECONDS))
    left = {thread for thread in threading.enumerate() if thread.name == "toolyard-host"} - threads
    assert (left, processes_of_run(run.id)) == (set(), [])


def test_a_host_that_closes_under_a_run_does_not_take_its_caller_along(started, tmp_path):
    go = tmp_path / "go"
    host = Host()
    run = started(*ATTACH, ["say", "up"], ["wait", str(go)], ["call", "LS", {"path": "."}], ["over"], host=host)

    async def listened():
        told = []
        async for message in run:
            told.append(message)
            if message.type == "text_delta":
                await asyncio.to_thread(host.close)
                go.touch()
        return told

    told = asyncio.run(asyncio.wait_for(listened(), SECONDS))
    assert told[-1].status is Status.FAILED
    after = messages_of(started(*ATTACH, ["over"], host=host))
    assert after[-1].reason == "The host of the run is closed."


def test_who_was_handed_the_output_of_a_run_cannot_keep_it_open(tmp_path):
    (tmp_path / "run").mkdir()
    start = ProcessSpec(
        f"run-{os.getpid()}", ("/bin/sh", "-c", "echo $$; sleep 1000"), "/", {"PATH": os.environ["PATH"]}
    )

    async def ran():
        process = await CliProcess.start(start)
        lines, held = [], -1
        try:
            async for line in process.lines():
                lines.append(line)
                # Another process, which is none of the run's: here it is this one.
                held = os.open(f"/proc/{int(line)}/fd/1", os.O_WRONLY)
                process.stop()
            return lines, await process.wait_for_exit()
        finally:
            await process.close()
            os.close(held)

    lines, code = asyncio.run(asyncio.wait_for(ran(), SECONDS / 2))
    assert (len(lines), code) == (1, -15)


@pytest.mark.parametrize("cli", ["qwen", "opencode", "claude"])
def test_a_call_does_not_hide_behind_the_id_of_an_earlier_one(cli):
    driver = DRIVERS[cli]
    reader, name = driver.reader("run", ["Read", "Write"]), driver.shown_name
    told = []
    for tool in ("Read", "Write"):
        if cli == "opencode":
            state = {"status": "completed", "input": {}, "output": "done"}
            records = [{"type": "tool_use", "part": {"callID": "1", "tool": name(tool), "state": state}}]
        else:
            block = {"type": "tool_use", "id": "1", "name": name(tool), "input": {}}
            answer = {"type": "tool_result", "tool_use_id": "1", "content": "done"}
            records = [
                {"type": "assistant", "message": {"content": [block]}},
                {"type": "user", "message": {"content": [answer]}},
            ]
        told += [message for record in records for message in reader.read(record)]
    assert [message.name for message in told if isinstance(message, ToolCall)] == ["Read", "Write"]


def test_what_a_run_prints_costs_no_memory(started):
    size = 100_000
    line = json.dumps({"kind": "text", "text": "x" * size}) + "\n"
    run = started(*ATTACH, ["raw", line, 1000], ["over"])

    async def listened():
        return sum([len(message.text) async for message in run if isinstance(message, TextDelta)])

    tracemalloc.start()
    try:
        assert asyncio.run(asyncio.wait_for(listened(), SECONDS)) == 1000 * size
        assert tracemalloc.get_traced_memory()[1] < 40 * MIB
    finally:
        tracemalloc.stop()


def test_what_a_model_says_is_kept_up_to_a_bound():
    heard = OutputState()
    for _ in range(3):
        heard.append_text("a" * (MAX_TEXT_CHARS // 2 + 1))
    assert sum(map(len, heard.text)) == MAX_TEXT_CHARS


@pytest.mark.parametrize("cli", ["gemini", "qwen"])
def test_a_prompt_is_no_command_of_the_cli(cli):
    run = RunSpec(prompt="/chat share /etc/x.json", url="http://127.0.0.1:1/mcp", folder="/run", workdir="/run/here")
    given = DRIVERS[cli].launch_spec(run).stdin
    assert not given.startswith("/")
    assert given.strip() == run.prompt


@pytest.mark.parametrize("cli", sorted(DRIVERS))
def test_instructions_are_no_word_that_others_could_see(cli):
    spec = RunSpec("do it", "http://127.0.0.1:1/mcp", "/run", "/run/here", instructions="between us")
    recipe = DRIVERS[cli].launch_spec(spec)
    assert not any("between us" in word for word in recipe.arguments)
    assert any("between us" in text for text in recipe.files.values())
