"""Every scenario of the bridge, one test each, through a real client and a real server, on every way between them."""

from __future__ import annotations

import base64
import json
import logging
import os

import pytest

from tests.bridge.agent import hangs, honest
from tests.bridge.conftest import ROOT
from toolyard.bridge import DEFAULT_ALLOWED_PATHS, TRACE, SecurityPolicy
from toolyard.core.events import CallOutcome

SECURITY, VALIDATION, TOOL = -32001, -32602, -32603
AT = "/home/me/project"


def reason(error):
    return error.error.data["reason"]


# Sampling-Based Directory Listing


async def test_list_directory_contents(connect):
    async with connect() as agent:
        listed = json.loads(await agent.call("list_directory", path="src"))
    assert [(each["name"], each["type"], each["path"]) for each in listed] == [
        ("a.py", "file", f"{AT}/src/a.py"),
        ("b.txt", "file", f"{AT}/src/b.txt"),
        ("inner", "directory", f"{AT}/src/inner"),
    ]
    assert listed[0]["size"] == 11
    assert listed[0]["mtime"] == (agent.project / "src/a.py").stat().st_mtime
    assert listed[2]["children"] is None
    assert agent.asked == [{"operation": "list_directory", "path": f"{AT}/src", "recursive": False, "pattern": None}]


async def test_recursive_directory_listing(connect):
    async with connect() as agent:
        listed = json.loads(await agent.call("list_directory", path="src/", recursive=True))
    [inner] = [each for each in listed if each["type"] == "directory"]
    assert [(each["path"], each["size"]) for each in inner["children"]] == [(f"{AT}/src/inner/c.py", 6)]


async def test_directory_listing_with_filters(connect):
    async with connect() as agent:
        flat = json.loads(await agent.call("list_directory", path="src", pattern="*.py"))
        deep = json.loads(await agent.call("list_directory", path="src", recursive=True, pattern="*.py"))
    assert [each["name"] for each in flat] == ["a.py"]
    assert [each["name"] for each in deep] == ["a.py", "inner"]
    assert agent.asked[0]["pattern"] == "*.py"  # the client filters


# Sampling-Based File Reading


async def test_read_file_content(connect):
    async with connect() as agent:
        assert await agent.call("read_file", path="src/b.txt") == "bé\n"
        noted = await agent.noted()
    assert [each["path"] for each in agent.asked] == [f"{AT}/src/b.txt"]
    assert noted["cache"]["entries"] == 1
    assert [each["tool"] for each in noted["operations"] if each["outcome"] == CallOutcome.OK] == [
        "guide_cache_file",
        "read_file",
    ]


async def test_read_file_with_encoding(connect):
    async with connect() as agent:
        (agent.project / "src/latin.txt").write_bytes("größer\n".encode("latin-1"))
        assert await agent.call("read_file", path="src/latin.txt", encoding="latin-1") == "größer\n"
        # What the file is not in is tried, and given up for what it is in.
        assert await agent.call("read_file", path="src/latin.txt", encoding="ascii") == "größer\n"
        error = await agent.fails("read_file", path="src/latin.txt", encoding="no-such")
    assert error.error.code == VALIDATION
    assert error.error.data["validation_errors"][0]["field"] == "encoding"


async def test_read_binary_file(connect):
    async with connect() as agent:
        said = await agent.call("read_file", path="docs/picture.bin", binary=True)
        assert base64.b64decode(said) == bytes(range(256))
        error = await agent.fails("read_file", path="docs/picture.bin")
    assert "binary=True" in str(error)


# Path Validation and Security


async def test_allowed_path_access(connect):
    async with connect() as agent:
        for path in ("src/a.py", "./src//a.py", "src/inner/../a.py", f"{AT}/src/a.py"):
            assert await agent.call("read_file", path=path) == "print('a')\n"
    assert len(agent.asked) == 1  # all the same file


async def test_disallowed_path_access(connect):
    async with connect() as agent:
        error = await agent.fails("read_file", path=".env")
        noted = await agent.noted()
    assert (error.error.code, reason(error), error.error.data["violation"]) == (SECURITY, "path_refused", "outside")
    assert agent.asked == []
    [violation] = [each for each in noted["operations"] if each["violation"]]
    assert violation["level"] == logging.WARNING


@pytest.mark.parametrize(
    "path", ["../other", "src/../../etc/passwd", "/tmp/../etc/passwd", "/etc/passwd", "src/../.env"]
)
async def test_path_traversal_prevention(connect_inside, path):
    async with connect_inside() as agent:
        for tool in ("read_file", "list_directory"):
            error = await agent.fails(tool, path=path)
            assert error.error.code == SECURITY
            assert error.error.data["violation"] in {"outside", "traversal"}
        pushed = await agent.fails("guide_cache_file", path=path, content="mine")
    assert pushed.error.code == SECURITY
    assert agent.asked == []


async def test_symbolic_link_validation(connect):
    async with connect() as agent:
        source = agent.project / "src"
        os.symlink("a.py", source / "fine")
        listed = json.loads(await agent.call("list_directory", path="src"))
        assert {each["name"]: each["target"] for each in listed if each["type"] == "symlink"} == {
            "fine": f"{AT}/src/a.py"
        }
        os.symlink("../.env", source / "out")
        os.symlink("two", source / "one")
        os.symlink("one", source / "two")
        listed = json.loads(await agent.call("list_directory", path="src"))
        noted = await agent.noted()
        pushed = await agent.fails("guide_cache_file", path="src/l", content="x", target="../../secret")
        circular = await agent.fails("guide_cache_file", path="src/l", content="x", target="./l")
    refused = {each["name"]: (each["refused"], each["target"]) for each in listed if each["refused"]}
    assert refused == {"out": ("link", None), "one": ("circular", None), "two": ("circular", None)}
    told = {each["target"] for each in noted["operations"] if each["violation"] and each["level"] == logging.WARNING}
    assert told == {f"{AT}/src/{name}" for name in refused}
    assert [pushed.error.data["violation"], circular.error.data["violation"]] == ["link", "circular"]


# Security Policy Configuration


async def test_default_allowed_paths(connect_inside):
    assert DEFAULT_ALLOWED_PATHS == ("docs/", "src/", "tests/", ".guide/", ".todo/")
    async with connect_inside(violations=50) as agent:
        for folder in DEFAULT_ALLOWED_PATHS:
            assert (await agent.client.call_tool("guide_cache_file", {"path": f"{folder}x", "content": ""})).content
        for path in ("README.md", ".", "lib/x", ".git/config", "srcs/x", "Docs/x"):
            error = await agent.fails("guide_cache_file", path=path, content="")
            assert error.error.code == SECURITY


async def test_project_specific_allowed_paths(tmp_path, caplog):
    (tmp_path / "lib").mkdir()
    file = tmp_path / "toolyard.yaml"
    file.write_text("filesystem: {allowed_paths: [lib/, gone/]}\n")
    policy = SecurityPolicy.from_file(str(file), str(tmp_path), folders_exist=os.path.isdir)
    assert policy.allowed_paths == (f"{tmp_path}/lib", f"{tmp_path}/gone")
    assert policy.missing == (f"{tmp_path}/gone",)
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "toolyard.bridge")
    assert "gone" in record.message


async def test_path_normalization():
    policy = SecurityPolicy(f"{ROOT}/", ["lib/", "./a/../docs//", f"{ROOT}/x/"])
    assert policy.allowed_paths == (f"{ROOT}/lib", f"{ROOT}/docs", f"{ROOT}/x")


# File Content Caching


async def test_cache_file_content(connect):
    async with connect() as agent:
        pushed = await agent.push("src/a.py")
        noted = await agent.noted()
    assert (pushed["cached"], pushed["bytes"], pushed["files"]) == (1, 11, [f"{AT}/src/a.py"])
    assert pushed["cache"] == {"entries": 1, "bytes": 11, "hits": 0, "misses": 0, "evictions": 0}
    assert noted["cache"]["entries"] == 1


async def test_cache_hit(connect):
    async with connect() as agent:
        await agent.push("src/a.py")
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        noted = await agent.noted()
    assert agent.asked == []
    assert noted["cache"]["hits"] == 1


async def test_cache_miss(connect):
    async with connect() as agent:
        await agent.call("read_file", path="src/a.py")
        await agent.call("read_file", path="src/a.py")
        noted = await agent.noted()
    assert len(agent.asked) == 1
    assert (noted["cache"]["misses"], noted["cache"]["hits"]) == (1, 1)


async def test_cache_invalidation_by_modification_time(connect):
    async with connect() as agent:
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        changed = agent.project / "src/a.py"
        later = changed.stat().st_mtime + 10
        changed.write_text("print('b')\n")
        os.utime(changed, (later, later))
        await agent.call("list_directory", path="src")  # which tells when each file was changed
        assert await agent.call("read_file", path="src/a.py") == "print('b')\n"
        noted = await agent.noted()
    assert noted["cache"]["invalidations"] == 1
    assert noted["cache"]["entries"] == 1


async def test_cache_size_management(connect):
    async with connect(cache_bytes=100) as agent:
        for name in ("one", "two", "three"):
            (agent.project / "src" / name).write_text(name[0] * 40)
            await agent.push(f"src/{name}")
        noted = await agent.noted()
        error = await agent.fails("guide_cache_file", path="src/large", content="x" * 101)
    assert (noted["cache"]["entries"], noted["cache"]["bytes"], noted["cache"]["evictions"]) == (2, 80, 1)
    assert (error.error.code, reason(error)) == (VALIDATION, "cache_refused")


# Error Handling and Fallbacks


async def test_file_not_found(connect):
    async with connect() as agent:
        error = await agent.fails("read_file", path="src/gone.py")
        again = await agent.fails("read_file", path="src/gone.py")
        noted = await agent.noted()
    assert (error.error.code, reason(error), reason(again)) == (TOOL, "not_found", "not_found")
    assert len(agent.asked) == 2  # nothing of it was kept
    assert noted["cache"]["entries"] == 0


async def test_permission_denied(connect):
    async with connect() as agent:
        closed = agent.project / "src/closed.py"
        closed.write_text("x")
        closed.chmod(0)
        error = await agent.fails("read_file", path="src/closed.py")
        noted = await agent.noted()
    assert (error.error.code, reason(error)) == (TOOL, "permission_denied")
    [told] = [each for each in noted["operations"] if each["outcome"] == CallOutcome.FAILED]
    assert (told["target"], told["client"]) == ("src/closed.py", "scripted 1.0")
    assert noted["cache"]["entries"] == 0


async def hands_over_and_hangs(agent, request):
    await honest(agent, request)
    await hangs(agent, request)


async def test_sampling_request_timeout(connect):
    async with connect(hands_over_and_hangs, seconds=0.5) as agent:
        if agent.client.protocol_version == "2026-07-28":
            agent.script = hands_over_late
        error = await agent.fails("read_file", path="src/a.py")
        noted = await agent.noted()
    assert (error.error.code, reason(error), error.error.data["retryable"]) == (TOOL, "sampling_timeout", True)
    assert noted["cache"]["entries"] == 0  # although the content had come


async def hands_over_late(agent, request):
    """A client of 2026-07-28 answers when it likes: the call ended meanwhile."""
    import asyncio

    said = await honest(agent, request)
    await asyncio.sleep(1)
    return said


async def test_unsupported_client_fallback(connect):
    async with connect(sampling=False) as agent:
        error = await agent.fails("read_file", path="src/a.py")
        assert (error.error.code, reason(error)) == (TOOL, "sampling_unsupported")
        assert "Call the tool guide_cache_file" in str(error)
        for way in ("resources=client", "shared_disk"):
            assert way not in str(error)  # the agent can do nothing with it
            assert way in error.error.data["for_author"]
        listing = await agent.fails("list_directory", path="src")
        assert reason(listing) == "sampling_unsupported"
        await agent.push("src/a.py")
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"


# Audit Logging


async def test_operation_audit_log(connect):
    async with connect() as agent:
        await agent.call("list_directory", path="src")
        await agent.fails("list_directory", path="/etc")
        noted = await agent.noted()
    told = [(each["level"], each["tool"], each["target"], each["outcome"]) for each in noted["operations"]]
    done = [each for each in told if each[-1] != CallOutcome.ASKED]
    assert done == [
        (TRACE, "list_directory", "src", CallOutcome.OK),
        (logging.WARNING, "list_directory", "/etc", CallOutcome.DENIED),
    ]


async def test_security_violation_logging(connect):
    async with connect(violations=3) as agent:
        for _ in range(3):
            await agent.fails("read_file", path="/etc/shadow")
        refused = await agent.fails("read_file", path="src/a.py")
        pushed = await agent.fails("guide_cache_file", path="src/a.py", content="x")
        noted = await agent.noted()
    violations = [each for each in noted["operations"] if each["violation"]]
    assert [each["violations"] for each in violations] == [1, 2, 3]
    assert {(each["target"], each["violation"], each["client"]) for each in violations} == {
        ("/etc/shadow", "outside", "scripted 1.0")
    }
    assert all("read_file" in each["stack"] for each in violations)
    assert (refused.error.code, reason(refused), reason(pushed)) == (SECURITY, "client_refused", "client_refused")


# Integration with MCP Tools


async def test_guide_cache_file_tool(connect):
    async with connect() as agent:
        [tool] = [each for each in (await agent.client.list_tools()).tools if each.name == "guide_cache_file"]
        assert set(tool.input_schema["properties"]) >= {"path", "content", "files"}
        pushed = await agent.push("docs/page.md")
        error = await agent.fails("guide_cache_file", path="../x", content="x")
        half = await agent.fails("guide_cache_file", path="src/x")
    assert pushed["cache"]["entries"] == 1
    assert error.error.code == SECURITY
    assert half.error.data["validation_errors"][0]["field"] == "content"


async def test_batch_file_caching(connect):
    async with connect() as agent:
        good = [agent.file("src/a.py"), agent.file("docs/page.md"), agent.file("docs/picture.bin", binary=True)]
        bad = [*good, {"path": "/etc/passwd", "content": "x"}]
        error = await agent.fails("guide_cache_file", files=bad)
        cut = await agent.fails("guide_cache_file", files=[*good, {"path": "src/c", "content": "x", "size": 9}])
        twice = await agent.fails("guide_cache_file", files=[*good, agent.file("src/a.py")])
        assert (await agent.noted())["cache"]["entries"] == 0
        result = await agent.client.call_tool("guide_cache_file", {"files": good})
        assert await agent.call("read_file", path="docs/page.md") == "# A page\n"
    assert [each.error.code for each in (error, cut, twice)] == [SECURITY, VALIDATION, VALIDATION]
    assert result.structured_content["cached"] == 3
    assert result.structured_content["bytes"] == 11 + 9 + 256
    assert agent.asked == []
