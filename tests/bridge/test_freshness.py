"""A file that changed after it was cached is not served from the cache."""

import os

import mcp_types as types
import pytest
from mcp import Client

from tests.bridge.agent import Agent, honest
from tests.bridge.conftest import LEGACY, ROOT
from tests.bridge.server import build
from toolyard.bridge.cache import CachedFile
from toolyard.bridge.freshness import Freshness, is_changed
from toolyard.bridge.sampling_answers import FileStatus


def change(agent, path="src/a.py", text="print('b')\n", seconds=10):
    file = agent.project / path
    later = file.stat().st_mtime + seconds
    file.write_text(text)
    os.utime(file, (later, later))


def operations(agent):
    return [request["operation"] for request in agent.asked]


async def test_a_changed_file_is_read_again_without_a_listing(connect):
    async with connect(revalidate=0) as agent:
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        change(agent)
        assert await agent.call("read_file", path="src/a.py") == "print('b')\n"
        noted = await agent.noted()
    assert operations(agent) == ["read_file", "stat_file", "read_file"]
    assert noted["cache"]["invalidations"] == 1


async def test_a_change_of_the_size_alone_is_noticed(connect_inside):
    async with connect_inside(revalidate=0) as agent:
        await agent.call("read_file", path="src/a.py")
        change(agent, text="longer than before\n", seconds=0)
        assert await agent.call("read_file", path="src/a.py") == "longer than before\n"


async def test_an_older_file_of_the_same_size_is_noticed(connect_inside):
    async with connect_inside(revalidate=0) as agent:
        await agent.call("read_file", path="src/a.py")
        change(agent, seconds=-10)  # as `cp -p` and `tar` leave it
        assert await agent.call("read_file", path="src/a.py") == "print('b')\n"


async def test_an_unchanged_file_costs_one_small_question(connect_inside):
    async with connect_inside(revalidate=0) as agent:
        await agent.push("src/a.py")
        await agent.push("src/b.txt")
        await agent.call("read_files", paths=["src/a.py", "src/b.txt"])
    assert operations(agent) == ["stat_file", "stat_file"]


async def test_a_file_is_not_checked_again_within_the_age(connect_inside):
    async with connect_inside(revalidate=60) as agent:
        await agent.push("src/a.py")
        change(agent)
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
    assert agent.asked == []


async def test_fresh_reads_whatever_the_cache_holds(connect):
    async with connect() as agent:
        await agent.call("read_file", path="src/a.py")
        change(agent)
        assert await agent.call("read_file", path="src/a.py", fresh=True) == "print('b')\n"
        assert await agent.call("read_file", path="src/a.py") == "print('b')\n"
    assert operations(agent) == ["read_file", "read_file"]


async def test_a_file_that_is_gone_leaves_the_cache(connect_inside):
    async with connect_inside(revalidate=0) as agent:
        await agent.push("src/a.py")
        (agent.project / "src/a.py").unlink()
        error = await agent.fails("read_file", path="src/a.py")
        noted = await agent.noted()
    assert error.error.data["reason"] == "not_found"
    assert noted["cache"]["entries"] == 0


async def test_an_answer_that_says_nothing_of_the_state_has_the_file_read_again(connect_inside):
    async def script(agent, request):
        return "I do not know." if request["operation"] == "stat_file" else await honest(agent, request)

    async with connect_inside(script, revalidate=0) as agent:
        await agent.push("src/a.py")
        change(agent)
        assert await agent.call("read_file", path="src/a.py") == "print('b')\n"


async def test_files_of_a_client_that_cannot_be_asked_are_used_for_a_while(connect_inside):
    async with connect_inside(sampling=False, max_age=0) as agent:
        await agent.push("src/a.py")
        error = await agent.fails("read_file", path="src/a.py")
    assert error.error.data["reason"] == "sampling_unsupported"
    assert "guide_cache_file" in str(error)


async def test_fresh_takes_what_such_a_client_has_just_pushed(connect_inside):
    async with connect_inside(sampling=False) as agent:
        assert (await agent.fails("read_file", path="src/a.py", fresh=True)).error.code == -32603
        await agent.push("src/a.py")
        assert await agent.call("read_file", path="src/a.py", fresh=True) == "print('a')\n"


async def test_files_are_forgotten_when_the_roots_of_the_client_change(project):
    """Paths are relative to what the client offers: the same path is then a file of another project."""
    server, host = build({}, None, None)
    agent = Agent(project, ROOT)

    async def roots(_):
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/me/project")])

    async with Client(server, mode=LEGACY, list_roots_callback=roots) as client:
        agent.client = client
        await agent.push("src/a.py")
        assert host.cache.statistics.entries == 1
        await client.session.send_notification(types.RootsListChangedNotification())
        error = await agent.fails("read_file", path="src/a.py")
    assert error.error.data["reason"] == "sampling_unsupported"
    assert host.cache.statistics.entries == 0


def cached(mtime=100.0, stored=200.0):
    return CachedFile("src/a.py", b"12345", 5, mtime, "utf-8", is_binary=False, stored=stored)


@pytest.mark.parametrize(
    ("file", "size", "mtime", "changed"),
    [
        (cached(), 5, 100.0, False),
        (cached(), 5, 99.1, False),
        (cached(), 5, 99.0, True),
        (cached(), 5, 100.5, True),
        (cached(), 6, 100.0, True),
        (cached(), 5, None, True),
        (cached(mtime=None), 5, 150.0, False),
        (cached(mtime=None), 5, 250.0, True),
    ],
)
def test_what_counts_as_changed(file, size, mtime, changed):
    assert is_changed(file, FileStatus(path="src/a.py", size=size, mtime=mtime)) is changed


def test_a_check_counts_until_it_is_as_old_as_a_file_may_be():
    now = [1000.0]
    freshness = Freshness(revalidate_seconds=5, clock=lambda: now[0])
    file = cached(stored=990.0)

    assert freshness.needs_check("one", file)
    freshness.record_check("one", file.path)
    assert not freshness.needs_check("one", file)
    assert freshness.needs_check("another", file)
    now[0] += 5
    assert freshness.needs_check("one", file)
