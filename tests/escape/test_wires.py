"""A representative part of the attacks over real servers: stdio and HTTP, in both eras."""

import pytest

from tests.support.attacks.mcp_calls import FILE_TOOLS, SECURITY, TOOL, VALIDATION, Attack

ATTACKS = (
    Attack("parent", "../outside/secret.txt"),
    Attack("absolute", "{outside}/secret.txt"),
    Attack("sibling", "{evil}/secret.txt"),
    Attack("link", "out-file"),
    Attack("link to a folder", "out-folder/secret.txt"),
    Attack("dangling link", "out-dangling"),
    Attack("magic link", "magic-root{outside}/secret.txt"),
    Attack("proc root", "/proc/self/root{outside}/secret.txt"),
    Attack("loop", "loop"),
    Attack("NUL", "a.txt\0", VALIDATION),
    Attack("long name", "n" * 10_000, VALIDATION),
    Attack("long path", "d/" * 2_500, VALIDATION),
)


@pytest.fixture
def unharmed(wire):
    before = wire.world.fingerprint()
    yield wire
    assert wire.world.fingerprint() == before
    wire.still_answers()


@pytest.mark.parametrize("tool", FILE_TOOLS)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_an_attack_over_the_wire_is_refused(unharmed, refused, tool, attack):
    refused(await unharmed.on(tool, unharmed.world.spell(attack.path)), attack.code)


@pytest.mark.parametrize("wrong", [None, 7, True, ["a.txt"], {"a": 1}], ids=str)
@pytest.mark.parametrize("tool", FILE_TOOLS[:-1])
async def test_a_path_of_the_wrong_type_is_invalid_over_the_wire(unharmed, refused, tool, wrong):
    answer = await unharmed.on(tool, wrong)
    refused(answer, VALIDATION)
    assert answer.data["validation_errors"]


@pytest.mark.parametrize("path", ["pipe", "socket"])
async def test_a_special_file_is_refused_over_the_wire(unharmed, refused, path):
    refused(await unharmed.on("Read", path), SECURITY)


async def test_what_is_not_there_is_a_tool_error_over_the_wire(unharmed, refused):
    refused(await unharmed.on("Read", "not-there.txt"), TOOL)


@pytest.mark.parametrize(
    "path", [".git/config", "git-link/hooks/x", "toolyard.yaml", "{context}/notes.txt", "key-link"]
)
async def test_the_walls_of_the_policy_hold_over_the_wire(unharmed, refused, path):
    refused(await unharmed.on("Write", unharmed.world.spell(path)), SECURITY)


async def test_commands_stay_inside_over_the_wire(unharmed):
    answer = unharmed.call("Bash", {"command": f"cat a.txt; cat {unharmed.world.spell('../outside/secret.txt')}"})
    assert answer.code == 0, answer.text
    assert "alpha" in answer.text
    assert "No such file or directory" in answer.text


@pytest.mark.parametrize("path", ["a.txt", "in-file", "in-absolute", "sub/../a.txt", "{ws}/a.txt", "../ws/a.txt"])
@pytest.mark.parametrize("tool", ["Read", "Grep", "resources/read"])
async def test_a_file_inside_is_read_over_the_wire(unharmed, tool, path):
    answer = await unharmed.on(tool, unharmed.world.spell(path))
    assert answer.code == 0, answer.text
    assert "alpha" in answer.text


async def test_a_file_inside_is_written_and_edited_over_the_wire(wire):
    name = "made by the wire.txt"
    assert wire.call("Write", {"file_path": name, "content": "one\n"}).code == 0
    assert wire.call("Edit", {"file_path": name, "old_string": "one", "new_string": "two"}).code == 0
    with open(f"{wire.world.workspace}/{name}") as file:
        assert file.read() == "two\n"
