"""The reference server's tools, under the same attacks: other names and arguments, the same walls."""

import os

import pytest

from tests.support.attacks.mcp_calls import (
    LINKS_OUT,
    MARKER,
    NOT_NAMES,
    PATHS_OUT,
    REFERENCE_TOOLS,
    SECURITY,
    VALIDATION,
    fingerprint,
)


def named(attack) -> str:
    return attack.name.replace(" ", "-")


@pytest.mark.parametrize("tool", REFERENCE_TOOLS)
@pytest.mark.parametrize("attack", [*PATHS_OUT, *LINKS_OUT], ids=named)
async def test_a_path_or_link_that_leads_out_is_refused(untouched, refused, tool, attack):
    refused(await untouched.on(tool, untouched.world.spell(attack.path)), attack.code)


@pytest.mark.parametrize("tool", REFERENCE_TOOLS)
@pytest.mark.parametrize("path", [pytest.param(path, id=name.replace(" ", "-")) for name, path in NOT_NAMES])
async def test_what_cannot_be_a_path_is_invalid(untouched, refused, tool, path):
    refused(await untouched.on(tool, path), VALIDATION)


@pytest.mark.parametrize("attack", [*PATHS_OUT, *LINKS_OUT], ids=named)
@pytest.mark.parametrize("end", ["source", "destination"])
async def test_nothing_is_moved_in_or_out(untouched, refused, attack, end):
    ends = {"source": "a.txt", "destination": "b.txt", end: untouched.world.spell(attack.path)}
    refused(await untouched.call("move_file", ends), SECURITY)


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        (".git", "git"),
        (".git/hooks", "hooks"),
        (".git/hooks/pre-commit", "x"),
        (".git/config", "x"),
        ("toolyard.yaml", "x"),
        ("a.txt", ".git/hooks/post-merge"),
        ("sub", ".git/hooks/sub"),
        ("a.txt", "sub/.git/config.worktree"),
        ("git-link/config", "x"),
        ("hidden/key.pem", "key.pem"),
        ("hidden", "shown"),
        ("key-link", "x"),
        ("a.txt", "hidden/a.txt"),
        ("a.txt", "{context}/a.txt"),
        ("{context}/notes.txt", "notes.txt"),
    ],
)
async def test_a_move_is_no_way_around_the_policy(untouched, refused, source, destination):
    ends = {"source": untouched.world.spell(source), "destination": untouched.world.spell(destination)}
    refused(await untouched.call("move_file", ends), SECURITY)


async def test_a_folder_that_holds_a_protected_one_is_not_moved_into_place(victim):
    """A folder made elsewhere must not become `.git` by being renamed."""
    ws = victim.world.workspace
    os.makedirs(f"{ws}/prepared/hooks")
    with open(f"{ws}/prepared/hooks/pre-commit", "w") as file:
        file.write("#!/bin/sh\n")
    os.mkdir(f"{ws}/fresh")
    answer = await victim.call("move_file", {"source": "prepared", "destination": "fresh/.git"})
    assert answer.code == SECURITY
    assert not os.path.lexists(f"{ws}/fresh/.git")


async def test_reading_many_files_gives_none_from_outside(untouched):
    """The reference server answers each file by itself, so one that is refused does not spoil the others."""
    paths = [
        "a.txt",
        "out-file",
        "../outside/secret.txt",
        f"{untouched.world.evil}/secret.txt",
        "hidden/key.pem",
        "pipe",
    ]
    answer = await untouched.call("read_multiple_files", {"paths": paths})
    assert MARKER not in answer.text
    assert "key material" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("paths", [[], None, "a.txt", [7], [None], [["a.txt"]], {"a": "b"}], ids=str)
async def test_reading_many_files_with_wrong_arguments_is_invalid(untouched, refused, paths):
    refused(await untouched.call("read_multiple_files", {"paths": paths}), VALIDATION)


@pytest.mark.parametrize(
    "path", [".git/hooks/new", ".git/hooks", "{context}/new", "hidden/new", "sub/.git/hooks/x/y"]
)
async def test_no_folder_is_made_where_none_may_be(untouched, path):
    before = fingerprint(untouched.world.workspace)
    answer = await untouched.call("create_directory", {"path": untouched.world.spell(path)})
    assert answer.code == SECURITY
    assert fingerprint(untouched.world.workspace) == before


CONTROLS = (
    ("read_file", {"path": "in-absolute"}, "alpha"),
    ("read_text_file", {"path": "sub/../a.txt"}, "alpha"),
    ("list_directory", {"path": "in-folder"}, "b.txt"),
    ("list_directory_with_sizes", {"path": "sub"}, "b.txt"),
    ("directory_tree", {"path": "."}, "c.txt"),
    ("search_files", {"path": ".", "pattern": "**/*.txt"}, "c.txt"),
    ("get_file_info", {"path": "a.txt"}, "size"),
    ("read_multiple_files", {"paths": ["a.txt", "sub/b.txt"]}, "alpha"),
    ("list_allowed_directories", {}, "ws"),
)


@pytest.mark.parametrize(("tool", "arguments", "shown"), CONTROLS)
async def test_what_is_inside_is_read(untouched, tool, arguments, shown):
    answer = await untouched.call(tool, arguments)
    assert answer.code == 0, answer.text
    assert shown in answer.text


async def test_what_is_inside_is_written_edited_made_and_moved(victim):
    steps = (
        ("write_file", {"path": "-new file", "content": "one\n"}),
        ("edit_file", {"path": "-new file", "edits": [{"oldText": "one", "newText": "two"}]}),
        ("create_directory", {"path": "made/here"}),
        ("move_file", {"source": "-new file", "destination": "made/here/x (deleted)"}),
    )
    for tool, arguments in steps:
        answer = await victim.call(tool, arguments)
        assert answer.code == 0, answer.text
    with open(f"{victim.world.workspace}/made/here/x (deleted)") as file:
        assert file.read() == "two\n"
