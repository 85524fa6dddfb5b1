"""A key or a login: seen to be there before a CLI is started, by the same code as in doctor."""

from __future__ import annotations

import asyncio

import pytest

from tests.drivers.scripted import KEY, PYTHON, ScriptedDriver, script, variables
from toolyard.drivers.credentials import missing_access
from toolyard.drivers.messages import Fault, Finished, Status
from toolyard.drivers.options import DriveOptions
from toolyard.drivers.registry import DRIVERS
from toolyard.drivers.run import CliRun

NEEDY = [name for name in DRIVERS if name != "opencode"]


@pytest.mark.parametrize("cli", NEEDY)
def test_any_of_its_keys_is_enough_and_an_empty_one_is_none(cli, tmp_path):
    driver = DRIVERS[cli]
    lack = missing_access(driver, dict.fromkeys(driver.keys, ""), str(tmp_path))
    assert lack == ("it has no key and no login", f"Set {driver.keys[0]}, or log in with `{driver.program}`.")
    for key in driver.keys:
        assert missing_access(driver, {key: "k"}, str(tmp_path)) is None


@pytest.mark.parametrize("cli", NEEDY)
def test_a_login_is_looked_for_where_a_run_takes_it_from(cli, tmp_path):
    login = DRIVERS[cli].logins[0]
    path = tmp_path / login.folder / login.name
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert missing_access(DRIVERS[cli], {}, str(tmp_path)) is None
    if login.variable:
        assert missing_access(DRIVERS[cli], {login.variable: str(tmp_path / "other")}, str(tmp_path)) is not None
        assert missing_access(DRIVERS[cli], {login.variable: str(path.parent)}, str(tmp_path / "other")) is None


@pytest.mark.parametrize(
    ("cli", "variable"),
    [
        ("gemini", "GOOGLE_GEMINI_BASE_URL"),
        ("gemini", "GOOGLE_GENAI_USE_VERTEXAI"),
        ("claude", "ANTHROPIC_BASE_URL"),
        ("claude", "CLAUDE_CODE_USE_BEDROCK"),
        ("codex", "OPENAI_BASE_URL"),
        ("qwen", "OPENAI_BASE_URL"),
    ],
)
def test_who_is_sent_elsewhere_may_need_no_key(cli, variable, tmp_path):
    assert variable in DRIVERS[cli].passed_variables
    assert missing_access(DRIVERS[cli], {variable: "http://127.0.0.1:1"}, str(tmp_path)) is None


def test_opencode_has_free_models(tmp_path):
    assert missing_access(DRIVERS["opencode"], {}, str(tmp_path)) is None


class Needy(ScriptedDriver):
    works_without_key = False


def test_a_run_without_either_fails_before_anything_is_started(tmp_path):
    run = CliRun(Needy(), script(["over"]), DriveOptions(str(tmp_path), program=PYTHON, variables=variables()))

    async def listened():
        return [message async for message in run]

    reason = "A run of Scripted CLI would not attach: it has no key and no login."
    hint = f"Set {KEY}, or log in with `scripted`."
    told = asyncio.run(asyncio.wait_for(listened(), 20))
    assert told == [Fault(reason, hint), Finished(Status.FAILED, reason, hint, seconds=told[-1].seconds)]
