"""Answers as models really give them: in a code fence, with an ISO time, with extra keys; one more try for others."""

import json

import mcp_types as types
import pytest

from tests.bridge.agent import honest

AT = "/home/me/project"


def reason(error):
    return error.error.data["reason"]


async def fenced(agent, request):
    said = await honest(agent, request)
    return f"```json\n{json.dumps(said, indent=1)}\n```"


async def with_more_keys(agent, request):
    said = await honest(agent, request)
    entries = [{**entry, "permissions": "rw-r--r--"} for entry in said.get("entries", [])]
    return {**said, "note": "as of now", **({"entries": entries} if entries else {})}


@pytest.mark.parametrize("script", [fenced, with_more_keys])
async def test_a_plain_answer_in_another_dress_is_understood(connect_inside, script):
    async with connect_inside(script) as agent:
        listed = json.loads(await agent.call("list_directory", path="src"))
        assert {entry["name"] for entry in listed} == {"a.py", "b.txt", "inner"}
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
    assert len(agent.asked) == 2  # understood at once


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T02:00:00+02:00", 1767225600.0),
        ("2026-01-01T00:00:00", None),
    ],
)
async def test_a_time_in_iso_8601_is_understood_where_it_names_its_zone(connect_inside, written, seconds):
    async def script(agent, request):
        entry = {"name": "a.py", "type": "file", "size": 11, "mtime": written}
        return {"path": request["path"], "complete": True, "count": 1, "entries": [entry]}

    async with connect_inside(script) as agent:
        [listed] = json.loads(await agent.call("list_directory", path="src"))
        pushed = await agent.push("src/a.py", mtime=written)
    assert listed["mtime"] == seconds
    assert pushed["cached"] == 1


async def wrong_at_first(agent, request):
    """Prose, until it hears what was wrong with it."""
    if "repeated" not in request:
        return "Sure, I will have a look!"
    assert "could not be used" in agent.requests[-1].messages[0].content.text
    return await honest(agent, request)


async def test_an_answer_that_cannot_be_used_is_asked_for_once_more(connect):
    async with connect(wrong_at_first) as agent:
        listed = json.loads(await agent.call("list_directory", path="src"))
        read = json.loads(await agent.call("read_files", paths=["src/a.py", "src/b.txt"]))
    assert {entry["name"] for entry in listed} == {"a.py", "b.txt", "inner"}
    assert read == {"src/a.py": "print('a')\n", "src/b.txt": "bé\n"}
    assert len(agent.asked) == 6


async def test_there_is_one_more_try_and_no_third(connect_inside):
    async def script(agent, request):
        return "No."

    async with connect_inside(script) as agent:
        assert reason(await agent.fails("read_file", path="src/a.py")) == "bad_answer"
        assert reason(await agent.fails("list_directory", path="src")) == "bad_answer"
    assert len(agent.asked) == 4


async def pushes_a_link_that_leads_out(agent, request):
    error = await agent.fails("guide_cache_file", **{**agent.file(request["path"]), "target": "../../../etc/passwd"})
    assert error.error.code == -32001
    return {"path": request["path"], "status": "cached"}


async def answers_with_a_link_that_leads_out(agent, request):
    file = {**agent.file(request["path"]), "target": "../../../etc/passwd"}
    block = types.ToolUseContent(name="guide_cache_file", id="1", input=file)
    return types.CreateMessageResultWithTools(
        role="assistant", content=[block], model="scripted", stop_reason="toolUse"
    )


@pytest.mark.parametrize(
    ("script", "tools"), [(pushes_a_link_that_leads_out, False), (answers_with_a_link_that_leads_out, True)]
)
async def test_a_link_that_leads_out_is_a_security_error_in_both_forms(connect_inside, script, tools):
    async with connect_inside(script, tools=tools) as agent:
        error = await agent.fails("read_file", path="src/a.py")
        noted = await agent.noted()
    assert (error.error.code, reason(error), error.error.data["violation"]) == (-32001, "path_refused", "link")
    assert noted["cache"]["entries"] == 0
    assert len(agent.asked) == 1  # it is not asked again


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"path": 5, "content": "x"}, "path"),
        ({"path": "src/a.py", "content": ["x"]}, "content"),
        ({"path": "src/a.py", "content": "x", "size": "many"}, "size"),
        ({"path": "src/a.py", "content": "x", "mtime": {}}, "mtime"),
        ({"path": "src/a.py", "content": "x", "size": True}, "size"),
        ({"path": "src/a.py", "content": "x", "mtime": True}, "mtime"),
        ({"files": "src/a.py"}, "files"),
        ({"files": [{"path": "src/a.py"}]}, "files.0.content"),
    ],
)
async def test_arguments_of_a_wrong_type_are_a_validation_error(connect_inside, arguments, field):
    async with connect_inside() as agent:
        error = await agent.fails("guide_cache_file", **arguments)
    assert error.error.code == -32602
    assert error.error.data["validation_errors"][0]["field"] == field


async def test_the_tool_describes_its_arguments(connect_inside):
    async with connect_inside() as agent:
        [tool] = [tool for tool in (await agent.client.list_tools()).tools if tool.name == "guide_cache_file"]
    described = tool.input_schema["properties"]
    assert set(described) == {"path", "content", "encoding", "size", "mtime", "target", "files"}
    assert described["files"]["anyOf"][0]["items"]["required"] == ["path", "content"]
    assert not tool.input_schema.get("required")
