"""Every tool, tried with every path that leads out or names nothing: refused with the right code, nothing touched."""

import pytest

from tests.support.attacks.mcp_calls import (
    FILE_TOOLS,
    LINKS_OUT,
    NOT_NAMES,
    PATHS_OUT,
    TOOL,
    VALIDATION,
    Attack,
    arguments_for,
)


def named(case: object) -> str:
    return case.name.replace(" ", "-") if isinstance(case, Attack) else str(case)


@pytest.mark.parametrize("tool", FILE_TOOLS)
@pytest.mark.parametrize("attack", PATHS_OUT, ids=named)
async def test_a_path_that_leads_out_is_refused(untouched, refused, tool, attack):
    refused(await untouched.on(tool, untouched.world.spell(attack.path)), attack.code)


@pytest.mark.parametrize("tool", FILE_TOOLS)
@pytest.mark.parametrize("attack", LINKS_OUT, ids=named)
async def test_a_link_that_leads_out_is_refused(untouched, refused, tool, attack):
    refused(await untouched.on(tool, untouched.world.spell(attack.path)), attack.code)


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        pytest.param(tool, path, id=f"{tool}-{name.replace(' ', '-')}")
        for tool in FILE_TOOLS
        for name, path in NOT_NAMES
        # A URI without a path is tried among the URIs.
        if tool != "resources/read" or not isinstance(path, str) or path.strip()
    ],
)
async def test_what_cannot_be_a_path_is_invalid(untouched, refused, tool, path):
    refused(await untouched.on(tool, path), VALIDATION)


@pytest.mark.parametrize("tool", FILE_TOOLS)
async def test_a_missing_argument_is_named(untouched, tool, refused):
    answer = await untouched.call(tool, {})
    if tool == "LS":
        assert answer.code == 0, "LS lists the workspace when it is told nothing"
        return
    refused(answer, VALIDATION)
    assert "is required" in answer.text


@pytest.mark.parametrize("tool", FILE_TOOLS)
@pytest.mark.parametrize("extra", ["unknown", "follow_symlinks", "root", "__class__", "file_path ", "FILE_PATH"])
async def test_an_argument_that_the_tool_does_not_know_is_named(untouched, refused, tool, extra):
    answer = await untouched.call(tool, {**arguments_for(tool, "a.txt"), extra: "/etc"})
    refused(answer, VALIDATION)
    assert extra in {fault["field"] for fault in answer.data["validation_errors"]}


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit"])
@pytest.mark.parametrize("path", ["not-there.txt", "sub/not-there.txt", "no/folder/either.txt"])
async def test_editing_what_is_not_there_makes_nothing(untouched, refused, tool, path):
    refused(await untouched.on(tool, path), TOOL)


@pytest.mark.parametrize("name", ["read", "READ", "Exec", "", "Read ", "../Read", "Read\0", "x" * 10_000, "__init__"])
async def test_a_tool_that_is_not_there_is_refused(shared_victim, refused, name):
    answer = await shared_victim.call(name, {"file_path": "a.txt"})
    refused(answer, VALIDATION)
    assert len(answer.text) < 500, "a long name is not sent back whole"
