"""One decision of the policy for every way in which a CLI allows tools or refuses them."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.drivers.scripted import PYTHON, ScriptedDriver, script, variables
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers.driver import LaunchSpec, RunSpec
from toolyard.drivers.messages import SessionStarted, Status, ToolResult
from toolyard.drivers.run import CliRun, DriveOptions
from toolyard.transports.client_profile import APPROVE_TOOL_NAME

SECONDS = 40
CHANGING = {"Write", "Edit", "MultiEdit", "NotebookEdit"}
READING = {"Read", "Grep", "Glob", "LS"}


class Watched(ScriptedDriver):
    """Keeps what it was told of a run."""

    def __init__(self, *, asks_first: bool = True) -> None:
        self.asks_first = asks_first
        self.seen: RunSpec | None = None

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        self.seen = run
        return super().launch_spec(run)


@pytest.fixture
def ran(tmp_path, monkeypatch):
    (tmp_path / "ws").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "tmp"))

    def run(driver: Watched, mode: PermissionMode, *steps: list) -> list:
        options = DriveOptions(
            str(tmp_path / "ws"), mode=mode, program=PYTHON, variables=variables(), state=str(tmp_path / "state")
        )

        async def listened() -> list:
            made = CliRun(driver, script(["connect"], ["list"], *steps, ["over"]), options)
            return [message async for message in made]

        told = asyncio.run(asyncio.wait_for(listened(), SECONDS))
        assert told[-1].status is Status.SUCCEEDED, told[-1]
        return told

    return run


def asked(driver: Watched, tools: list[str]) -> list[list]:
    return [["call", APPROVE_TOOL_NAME, {"tool_name": driver.shown_name(tool), "input": {}}] for tool in tools]


def test_what_a_cli_is_told_to_refuse_is_what_it_is_refused_when_it_asks(ran):
    driver, tools = Watched(), sorted(CHANGING | READING | {"Bash"})
    told = ran(driver, PermissionMode.PLAN, *asked(driver, tools))
    answers = [json.loads(message.text) for message in told if isinstance(message, ToolResult)]
    refused = {
        tool: answer["message"] for tool, answer in zip(tools, answers, strict=True) if answer["behavior"] == "deny"
    }
    assert set(refused) == CHANGING
    assert driver.seen.denied == refused
    assert all("plan mode changes nothing" in reason for reason in refused.values())


def test_a_refusal_names_the_file_that_the_call_names(ran, tmp_path):
    driver = Watched()
    wish = {"tool_name": driver.shown_name("Write"), "input": {"file_path": "hello.txt", "content": "x"}}
    told = ran(driver, PermissionMode.PLAN, ["call", APPROVE_TOOL_NAME, wish])
    (answer,) = (json.loads(message.text) for message in told if isinstance(message, ToolResult))
    assert answer["message"].startswith(f"Writing {tmp_path / 'ws/hello.txt'} is refused")


@pytest.mark.parametrize("mode", [PermissionMode.STRICT, PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
def test_where_a_call_may_succeed_the_cli_lets_it_come_to_us(ran, mode):
    driver = Watched()
    ran(driver, mode)
    assert driver.seen.denied == {}
    assert set(driver.seen.tools) >= CHANGING | READING


@pytest.mark.parametrize("asks_first", [True, False])
def test_the_tool_to_ask_is_there_for_a_cli_that_asks_and_for_no_other(ran, asks_first):
    driver = Watched(asks_first=asks_first)
    first = ran(driver, PermissionMode.STRICT)[0]
    assert isinstance(first, SessionStarted)
    assert (APPROVE_TOOL_NAME in first.session.split(",")) is asks_first
    assert (driver.seen.approve_tool == APPROVE_TOOL_NAME) is asks_first
