"""Published servers through the pool, each in its own environment, as a user attaches them."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from tests.e2e.published import listening
from toolyard.config.models import ServerEntry


def entry(name, command, *more, **fields) -> ServerEntry:
    return ServerEntry(name=name, command=command[0], args=(*command[1:], *more), **fields)


def test_servers_of_two_languages_work_side_by_side(open_pool, everything, python_server, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", tmp_path, *identity, "commit", "-q", "--allow-empty", "-m", "Begin"], check=True)
    pool = open_pool(
        entry("everything", everything),
        entry("time", [python_server("mcp-server-time")], "--local-timezone", "UTC"),
        entry("git", [python_server("mcp-server-git")]),
    )

    async def scene():
        return await asyncio.gather(
            pool.call("everything", "get-sum", {"a": 2, "b": 40}),
            pool.call(
                "time",
                "convert_time",
                {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"},
            ),
            pool.call("git", "git_log", {"repo_path": str(tmp_path), "max_count": 2}),
        )

    added, converted, log = pool.loop.run(scene())
    assert "42" in added.text
    assert "01:30" in converted.text
    assert "Begin" in log.text
    assert {status.state for status in pool.status().values()} == {"running"}


def test_everything_is_listed_and_called_over_each_transport(open_pool, everything):
    def calls(pool):
        listing = pool.loop.run(pool.server_listing("everything"))
        assert "get-structured-content" in {tool.name for tool in listing.tools}
        told = []
        weather = pool.loop.run(pool.call("everything", "get-structured-content", {"location": "New York"}))
        image = pool.loop.run(pool.call("everything", "get-tiny-image", {}))
        operation = {"duration": 1, "steps": 4}
        pool.loop.run(
            pool.call("everything", "trigger-long-running-operation", operation, progress=lambda *t: told.append(t))
        )
        return {tool.name for tool in listing.tools}, weather.structured, image.content, len(told)

    over_stdio = calls(open_pool(entry("everything", everything)))
    with listening(everything, "streamableHttp") as port:
        pool = open_pool(ServerEntry(name="everything", url=f"http://127.0.0.1:{port}/mcp"))
        over_http = calls(pool)
        pool.close()
    with listening(everything, "sse") as port:
        pool = open_pool(ServerEntry(name="everything", url=f"http://127.0.0.1:{port}/sse"))
        over_sse = calls(pool)
        pool.close()
    assert over_stdio[1]["conditions"]
    assert over_stdio[3] == 4
    assert over_http == over_sse == over_stdio


def test_a_thousand_calls_in_a_row_and_at_once(open_pool, everything):
    pool = open_pool(entry("everything", everything))

    async def row():
        return [(await pool.call("everything", "echo", {"message": str(n)})).text for n in range(1_000)]

    async def at_once():
        calls = [pool.call("everything", "echo", {"message": str(n)}) for n in range(1_000)]
        return [answer.text for answer in await asyncio.gather(*calls)]

    expected = [f"Echo: {n}" for n in range(1_000)]
    assert pool.loop.run(row()) == expected
    assert pool.loop.run(at_once()) == expected
    assert pool.status()["everything"].starts == 1


def test_a_call_that_is_cancelled_leaves_the_server_usable(open_pool, everything):
    pool = open_pool(entry("everything", everything))

    async def give_up():
        heard = asyncio.Event()
        call = asyncio.ensure_future(
            pool.call(
                "everything",
                "trigger-long-running-operation",
                {"duration": 60, "steps": 60},
                progress=lambda *_: heard.set(),
            )
        )
        await heard.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return (await pool.call("everything", "echo", {"message": "still here"})).text

    assert pool.loop.run(give_up()) == "Echo: still here"
