"""The controls: what is inside works, however odd its name. A server that refused everything would fail here."""

import os

import pytest

from tests.support.attacks.mcp_calls import LITERAL_NAMES, MARKER

NAMES = (
    "plain.txt",
    "with space.txt",
    " leading space.txt",
    "trailing space ",
    "-leading-dash",
    "--regexp=x",
    "-",
    "x (deleted)",
    "sub/x (deleted)",
    "ünïcödé.txt",
    "文件.txt",
    "🦀.rs",
    "e\u0301 combining",
    "quote'\".txt",
    "semi;colon",
    "star*.txt",
    "[bracket].txt",
    "{brace}.txt",
    "question?.txt",
    "back\\slash.txt",
    "new\nline.txt",
    "tab\t.txt",
    "#hash",
    "!bang",
    "...",
    "..hidden",
    "a..b",
    "dots...",
    ".toolyard",
    "new/folders/on/the/way.txt",
    "n" * 255,
    "/".join(["d" * 100] * 20),
)


@pytest.mark.parametrize("name", [*NAMES, *LITERAL_NAMES], ids=lambda name: ascii(name[:40]))
async def test_a_file_of_any_name_is_written_read_edited_and_found(victim, name):
    world = victim.world
    outside = world.fingerprint_outside()
    name = name.replace("{{", "{").replace("}}", "}")
    written = await victim.on("Write", name)
    assert written.code == 0, written.text
    with open(f"{world.workspace}/{os.path.normpath(name)}", encoding="utf-8") as file:
        assert file.read() == "owned\n"
    assert "owned" in (await victim.on("Read", name)).text
    edited = await victim.call("Edit", {"file_path": name, "old_string": "owned", "new_string": "kept"})
    assert edited.code == 0, edited.text
    found = await victim.call("Grep", {"pattern": "kept", "path": name, "output_mode": "content"})
    assert "kept" in found.text
    assert "kept" in (await victim.on("Read", f"{world.workspace}/{name}")).text
    assert world.fingerprint_outside() == outside


READABLE = (
    "a.txt",
    "./a.txt",
    ".//a.txt",
    "sub/../a.txt",
    "nothing/../a.txt",
    "sub/deep/../../a.txt",
    "{ws}/a.txt",
    "{ws}//a.txt",
    "//{ws}/a.txt",
    "{ws}/./sub/../a.txt",
    "../ws/a.txt",
    "sub/../../ws/a.txt",
    "in-file",
    "in-chain",
    "in-climbing",
    "in-absolute",
    "{ws}/in-absolute",
    "a.txt/",
    "a.txt/.",
)


@pytest.mark.parametrize("path", READABLE)
@pytest.mark.parametrize("tool", ["Read", "Grep", "resources/read"])
async def test_a_file_inside_is_read_by_every_spelling(untouched, tool, path):
    answer = await untouched.on(tool, untouched.world.spell(path))
    assert answer.code == 0, answer.text
    assert "alpha" in answer.text


@pytest.mark.parametrize("path", ["a.txt", "in-file", "in-absolute", "in-chain", "sub/../a.txt", "{ws}/in-climbing"])
@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit"])
async def test_a_file_inside_is_changed_through_a_link_and_the_link_stays(victim, tool, path):
    links = {name: os.readlink(f"{victim.world.workspace}/{name}") for name in ("in-file", "in-absolute", "in-chain")}
    answer = await victim.on(tool, victim.world.spell(path))
    assert answer.code == 0, answer.text
    with open(f"{victim.world.workspace}/a.txt") as file:
        assert "owned" in file.read()
    assert {name: os.readlink(f"{victim.world.workspace}/{name}") for name in links} == links


@pytest.mark.parametrize(
    "path", [".", "sub", "sub/", "in-folder", "in-absolute-folder", "{ws}/sub", "sub/deep/..", ""]
)
@pytest.mark.parametrize("tool", ["Grep", "Glob", "LS"])
async def test_a_folder_inside_is_searched_by_every_spelling(untouched, tool, path):
    answer = await untouched.on(tool, untouched.world.spell(path or "./"))
    assert answer.code == 0, answer.text
    assert "c.txt" in answer.text


@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit"])
async def test_a_writable_context_path_is_written(victim, tool):
    answer = await victim.on(tool, f"{victim.world.writable}/notes.txt")
    assert answer.code == 0, answer.text
    with open(f"{victim.world.writable}/notes.txt") as file:
        assert "owned" in file.read()


@pytest.mark.parametrize("tool", ["Read", "Grep", "resources/read"])
async def test_a_read_only_context_path_is_read(untouched, tool):
    answer = await untouched.on(tool, f"{untouched.world.context}/notes.txt")
    assert answer.code == 0, answer.text
    assert "context notes" in answer.text


async def test_an_unprotected_file_of_git_is_written(victim):
    assert (await victim.on("Write", ".git/COMMIT_EDITMSG")).code == 0
    assert (await victim.on("Write", ".github/workflows/x.yaml")).code == 0
    assert (await victim.on("Write", "hooks/pre-commit")).code == 0


async def test_the_marker_is_told_when_somebody_brings_it_in(victim):
    """Proves the check itself: were the marker inside, an answer would show it."""
    with open(f"{victim.world.workspace}/brought.txt", "w") as file:
        file.write(MARKER)
    with pytest.raises(AssertionError, match="nothing outside is read"):
        await victim.on("Read", "brought.txt")
