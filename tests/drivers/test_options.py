"""What `drive` takes for an option, and what it refuses by name before anything starts."""

from __future__ import annotations

import pathlib

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.config.models import Config
from toolyard.core.errors import ConfigError, ValidationError
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers import drive
from toolyard.drivers.options import MAX_PROMPT_CHARS, DriveOptions, parse_options


def test_what_is_left_out_or_none_is_the_default():
    nothing = dict.fromkeys(
        ("model", "mode", "tools", "instructions", "config", "agent", "state", "ask", "program", "variables")
    )
    assert parse_options("ws", {}) == parse_options("ws", nothing) == DriveOptions("ws")


def test_a_mode_and_sets_of_tools_go_by_their_names():
    taken = parse_options("ws", {"mode": "plan", "tools": "code, workspace"})
    assert taken.mode is PermissionMode.PLAN
    assert taken.tools == (Toolset.CODE, Toolset.WORKSPACE)
    assert parse_options("ws", {"tools": ["reference"]}).tools is Toolset.REFERENCE
    assert parse_options("ws", {"tools": (Toolset.CODE, "workspace")}).tools == (Toolset.CODE, Toolset.WORKSPACE)


def test_a_configuration_may_be_the_path_of_one(tmp_path):
    path = tmp_path / "toolyard.yaml"
    path.write_text("agents:\n  - id: ada\n")
    for given in (str(path), path):
        assert [agent.id for agent in parse_options("ws", {"config": given}).config.agents] == ["ada"]
    loaded = Config()
    assert parse_options("ws", {"config": loaded}).config is loaded


def test_a_configuration_that_cannot_be_read_is_raised_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        drive("gemini", "hi", workspace=tmp_path, config=tmp_path / "none.yaml")


def test_paths_may_begin_at_home(tmp_path):
    given = {"variables": {"HOME": str(tmp_path)}, "state": "~/state", "program": "~/bin/gemini"}
    taken = parse_options("~/x", given)
    assert (taken.workspace, taken.state, taken.program) == tuple(
        f"{tmp_path}/{name}" for name in ("x", "state", "bin/gemini")
    )
    assert parse_options(pathlib.Path("~"), given).workspace == str(tmp_path)
    assert parse_options("~bob/x", given).workspace == "~bob/x"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"prompt": ""}, "prompt: is empty"),
        ({"prompt": " \n"}, "prompt: is empty"),
        ({"prompt": None}, "prompt: is not text but of the type NoneType"),
        ({"prompt": "\ud800"}, "prompt: contains a lone surrogate"),
        ({"prompt": "a" * (MAX_PROMPT_CHARS + 1)}, "prompt: is too long"),
        ({"model": "a\0b"}, "model: holds a NUL character"),
        ({"model": "--yolo"}, "model: '--yolo' would be read as an option"),
        ({"model": 5}, "model: is not text but of the type int"),
        ({"instructions": "a\0b"}, "instructions: holds a NUL character"),
        ({"timeout": None}, "timeout: None is not a number of seconds"),
        ({"timeout": 0}, "timeout: 0 is not a number of seconds"),
        ({"timeout": -1.0}, "timeout: -1.0 is not"),
        ({"timeout": "60"}, "timeout: '60' is not"),
        ({"timeout": True}, "timeout: True is not"),
        ({"timeout": float("nan")}, "timeout: nan is not"),
        ({"timeout": float("inf")}, "timeout: inf is not"),
        ({"mode": "plann"}, "mode: 'plann' is not a permission mode"),
        ({"mode": 1}, "mode: is not a permission mode but of the type int"),
        ({"tools": "cluade"}, "tools: 'cluade' is not a set of tools"),
        ({"tools": []}, "tools: is not sets of tools by their names"),
        ({"tools": 3}, "tools: is not a set of tools"),
        ({"config": {"agents": []}}, "config: is not a path but of the type dict"),
        ({"workspace": ""}, "workspace: is empty"),
        ({"workspace": "a\0b"}, "workspace: holds a NUL character"),
        ({"workspace": None}, "workspace: is not a path but of the type NoneType"),
        ({"state": 5}, "state: is not a path"),
        ({"agent": 5}, "agent: is not text"),
        ({"ask": True}, "ask: is not a function but of the type bool"),
        ({"host": "127.0.0.1"}, "host: is not a Host"),
        ({"variables": ["PATH"]}, "variables: is not a mapping of variables"),
        ({"variables": {"PATH": 5}}, r"variables['PATH']: is not text"),
        ({"modle": "m"}, "modle: is not an option of a run"),
        ({"cli": None}, "cli: None is not an agent CLI"),
    ],
)
def test_what_cannot_be_right_is_refused_by_its_name_before_anything_starts(given, reason):
    with pytest.raises(ValidationError) as caught:
        drive(**{"cli": "gemini", "prompt": "hi", "workspace": ".", **given})
    assert caught.value.message.startswith(reason)
    assert caught.value.fields


def test_a_near_miss_is_told():
    for given, meant in (
        ({"instruction": "m"}, "instructions"),
        ({"mode": "plann"}, "plan"),
        ({"tools": "cluade"}, "claude"),
    ):
        with pytest.raises(ValidationError) as caught:
            drive("gemini", "hi", workspace=".", **given)
        assert caught.value.hint == f'Did you mean "{meant}"?'
