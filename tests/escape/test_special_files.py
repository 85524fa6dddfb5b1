"""Pipes, sockets, devices and folders where a file is wanted: refused at once, never opened."""

import asyncio
import os

import pytest

from tests.support.attacks.mcp_calls import SECURITY, TOOL

SECONDS = 10
TAKES_A_FILE = ("Read", "Write", "Edit", "MultiEdit", "resources/read")


async def soon(call):
    """No call on a special file may wait for it."""
    return await asyncio.wait_for(call, SECONDS)


@pytest.mark.parametrize("tool", [*TAKES_A_FILE, "Grep", "Glob"])
@pytest.mark.parametrize("path", ["pipe", "socket", "{ws}/pipe", "sub/../socket", "./pipe"])
async def test_a_special_file_is_refused_without_hanging(untouched, refused, tool, path):
    refused(await soon(untouched.on(tool, untouched.world.spell(path))), SECURITY)


@pytest.mark.parametrize("path", ["pipe", "socket", "a.txt", "in-file"])
async def test_listing_what_is_not_a_folder_is_refused(untouched, refused, path):
    refused(await soon(untouched.on("LS", path)), TOOL)


@pytest.mark.parametrize("tool", TAKES_A_FILE)
@pytest.mark.parametrize("path", [".", "sub", "sub/", "in-folder", "{ws}", "empty", "in-absolute-folder"])
async def test_a_folder_is_not_a_file(untouched, refused, tool, path):
    refused(await untouched.on(tool, untouched.world.spell(path)), TOOL)


@pytest.mark.parametrize("tool", [*TAKES_A_FILE, "Grep", "Glob", "LS"])
@pytest.mark.parametrize("path", ["a.txt/b", "a.txt/b/c.txt", "in-file/b", "pipe/b"])
async def test_a_file_is_not_a_folder(untouched, refused, tool, path):
    refused(await untouched.on(tool, path), TOOL)


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "MultiEdit", "resources/read", "Grep"])
@pytest.mark.parametrize("number", [os.makedev(1, 3), os.makedev(1, 5), os.makedev(1, 8), os.makedev(5, 0)])
async def test_a_device_inside_is_refused(victim, refused, tool, number):
    path = f"{victim.world.workspace}/node"
    try:
        os.mknod(path, 0o20666, number)
    except PermissionError:
        pytest.skip("only root makes devices")
    refused(await soon(victim.on(tool, "node")), SECURITY)


@pytest.mark.parametrize("tool", ["Grep", "Glob", "LS"])
async def test_walking_past_special_files_does_not_hang(untouched, tool):
    answer = await soon(untouched.on(tool, "."))
    assert answer.code == 0
    assert "a.txt" in answer.text


@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit"])
@pytest.mark.parametrize("mode", [0o444, 0o400, 0o000])
async def test_a_file_marked_read_only_stays_as_it_is(victim, refused, tool, mode):
    path = f"{victim.world.workspace}/a.txt"
    os.chmod(path, mode)
    before = victim.world.fingerprint()
    refused(await victim.on(tool, "a.txt"), TOOL)
    assert victim.world.fingerprint() == before


@pytest.mark.parametrize("tool", ["Read", "Edit", "MultiEdit", "Write", "resources/read"])
async def test_a_file_over_the_limit_is_refused(victim, refused, tool):
    path = f"{victim.world.workspace}/sparse.bin"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    before = os.stat(path)
    refused(await soon(victim.on(tool, "sparse.bin")), -32602)
    after = os.stat(path)
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
