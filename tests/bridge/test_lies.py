"""Clients that lie: in what they list, in what they hand over, and about what they were asked."""

from __future__ import annotations

import asyncio
import json
import time

import mcp_types as types
import pytest
from mcp import Client

from tests.bridge.agent import Agent, honest, saying
from tests.bridge.server import build
from toolyard.bridge import PathValidator, SecurityPolicy
from toolyard.bridge.listing_answers import ListingRequest, read_listing

AT = "/home/me/project"
A = {"name": "a.py", "type": "file", "size": 1, "mtime": 1.0}


def listing(entries, **more):
    return {"path": f"{AT}/src", "complete": True, "count": len(entries), "entries": entries, **more}


def reason(error):
    return error.error.data["reason"]


@pytest.mark.parametrize(
    "answer",
    [
        f"Here is the listing:\n{json.dumps(listing([A]))}",
        json.dumps(listing([A])) + "\nLet me know if you need more!",
        json.dumps(listing([A]))[:-10],
        json.dumps([A]),
        "",
        "null",
        "{}",
        listing([A], count=2),
        listing([A], complete=False),
        listing([A], path=f"{AT}/docs"),
        listing([A], path="src"),
        listing([A, A]),
        listing([{**A, "type": "socket"}]),
        listing([{**A, "size": -1}]),
        listing([A, {**A, "name": "b", "mtime": 1e300}]),
        listing([{**A, "size": "1"}]),
        listing([{**A, "target": "b"}]),
        listing([{"name": "l", "type": "symlink"}]),
        listing([{"name": "d", "type": "directory", "entries": []}]),
        json.dumps(listing([A])).replace('"count": 1', '"count": 1, "count": 1'),
        json.dumps(listing([A])).replace('"mtime": 1.0', '"mtime": NaN'),
        '{"path": ' * 100_000,
        "[" * 100_000,
        {"path": f"{AT}/docs", "error": "not_found"},
        {"path": f"{AT}/src", "error": "no idea"},
    ],
)
async def test_a_listing_that_is_not_plainly_right_is_an_error(connect_inside, answer):
    async with connect_inside(saying(answer)) as agent:
        assert reason(await agent.fails("list_directory", path="src")) == "bad_answer"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "/etc/passwd", "a" * 300])
async def test_a_name_that_cannot_be_one_is_an_error(connect_inside, name):
    async with connect_inside(saying(listing([{**A, "name": name}]))) as agent:
        error = await agent.fails("list_directory", path="src")
    assert error.error.code in {-32001, -32602, -32603}


@pytest.mark.parametrize("name", ["a\0b", "x\u202ey", "\uff0e\uff0e", "a\u2026b.md", "a\u200bb"])
async def test_an_entry_with_a_name_that_is_not_taken_is_told_of_and_cannot_be_used(connect_inside, name):
    async with connect_inside(saying(listing([A, {**A, "name": name}]))) as agent:
        fine, odd = json.loads(await agent.call("list_directory", path="src"))
        noted = await agent.noted()
    assert (fine["name"], fine["refused"]) == ("a.py", None)
    assert (odd["path"], odd["refused"]) == ("", "unicode")
    assert odd["name"].isprintable()
    assert noted["operations"][-1]["violations"] == 0  # its client did nothing wrong


LINK = {"type": "symlink"}


@pytest.mark.parametrize(
    ("entries", "refused"),
    [
        ([{"name": "l", "target": "/etc"}], {"l": "link"}),
        ([{"name": "l", "target": "../../x"}], {"l": "link"}),
        ([{"name": "l", "target": "."}], {"l": "circular"}),
        ([{"name": "l", "target": "l/x"}], {"l": "circular"}),
        ([{"name": "l", "target": "a.py"}, {"name": "m", "target": "../.env"}], {"l": None, "m": "link"}),
    ],
)
async def test_links_that_lead_out_or_round_cannot_be_used(connect_inside, entries, refused):
    async with connect_inside(saying(listing([{**LINK, **entry} for entry in entries]))) as agent:
        listed = json.loads(await agent.call("list_directory", path="src"))
    assert {each["name"]: each["refused"] for each in listed} == refused
    assert all(each["target"] is None for each in listed if each["refused"])


async def test_links_that_lead_to_each_other_or_over_one_that_leads_out_cannot_be_used(connect_inside):
    ways = {"a": "b", "b": "a", "c": "a", "out": "/etc", "over": "out/passwd", "fine": "a.py"}
    entries = [{**LINK, "name": name, "target": target} for name, target in ways.items()]
    async with connect_inside(saying(listing(entries))) as agent:
        listed = json.loads(await agent.call("list_directory", path="src"))
    assert {each["name"]: each["refused"] for each in listed} == {
        **dict.fromkeys("abc", "circular"),
        **dict.fromkeys(("out", "over"), "link"),
        "fine": None,
    }


async def test_there_is_an_end_to_links_that_cannot_be_used(connect_inside):
    entries = [{**LINK, "name": f"l{number}", "target": "/etc"} for number in range(300)]
    async with connect_inside(saying(listing(entries))) as agent:
        assert reason(await agent.fails("list_directory", path="src")) == "bad_answer"


async def test_a_recursive_listing_has_the_entries_of_every_folder(connect_inside):
    async with connect_inside(saying(listing([{"name": "d", "type": "directory"}]))) as agent:
        assert reason(await agent.fails("list_directory", path="src", recursive=True)) == "bad_answer"


async def test_what_does_not_match_the_pattern_was_not_asked_for(connect_inside):
    async with connect_inside(saying(listing([A]))) as agent:
        assert reason(await agent.fails("list_directory", path="src", pattern="*.md")) == "bad_answer"


async def test_a_pattern_that_is_none_is_the_callers_mistake(connect_inside):
    async with connect_inside() as agent:
        error = await agent.fails("list_directory", path="src", pattern="")
    assert error.error.code == -32602


def receipt(path):
    return {"path": path, "status": "cached"}


@pytest.mark.parametrize(
    "answer",
    [
        receipt(f"{AT}/src/a.py"),
        "print('a')\n",
        {"path": f"{AT}/src/a.py", "content": "print('a')\n"},
        receipt(f"{AT}/src/b.txt"),
        f"Done! {json.dumps(receipt(f'{AT}/src/a.py'))}",
        {"path": f"{AT}/src/A.py", "status": "cached"},
    ],
)
async def test_a_file_that_was_not_handed_over_is_not_read(connect_inside, answer):
    async with connect_inside(saying(answer)) as agent:
        assert reason(await agent.fails("read_file", path="src/a.py")) == "bad_answer"
        assert (await agent.noted())["cache"]["entries"] == 0


@pytest.mark.parametrize("receipt", ["I have cached it for you.", "", {"path": "elsewhere", "status": "cached"}])
async def test_a_file_that_arrived_counts_whatever_its_receipt_looks_like(connect_inside, receipt):
    async def script(agent, request):
        await honest(agent, request)
        return receipt

    async with connect_inside(script) as agent:
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        assert (await agent.noted())["cache"]["entries"] == 1
    assert len(agent.asked) == 1


async def test_another_file_than_the_one_that_was_asked_for_does_not_pass_for_it(connect_inside):
    async def script(agent, request):
        await agent.push("src/b.txt")
        return receipt(request["path"])

    async with connect_inside(script) as agent:
        assert reason(await agent.fails("read_file", path="src/a.py")) == "bad_answer"


async def test_an_old_copy_does_not_pass_for_a_file_that_was_just_handed_over(connect_inside):
    """The cache holds a version that is not to be used any more; saying `cached` does not bring it back."""

    async def script(agent, request):
        return receipt(request["path"])

    async with connect_inside(script, ttl=0.05) as agent:
        await agent.push("src/a.py")
        await asyncio.sleep(0.1)
        assert reason(await agent.fails("read_file", path="src/a.py")) == "bad_answer"


def use(**arguments):
    return types.ToolUseContent(name="guide_cache_file", id="1", input=arguments)


@pytest.mark.parametrize(
    "blocks",
    [
        [use(path="src/b.txt", content="x")],
        [use(path="src/a.py", content="x", size=9)],
        [use(path="src/a.py", content="x", encoding="base64")],
        [use(path="src/a.py")],
        [use(path="src/a.py", content="x"), use(path="src/a.py", content="y")],
        [use(path="src/a.py", content="x"), types.TextContent(type="text", text="There you are.")],
        [types.ToolUseContent(name="another", id="1", input={"path": "src/a.py", "content": "x"})],
        [use(files=[{"path": "src/a.py", "content": "x"}, {"path": "src/b.txt", "content": "x"}])],
    ],
)
async def test_a_call_in_an_answer_that_is_not_plainly_right_is_an_error(connect_inside, blocks):
    answer = types.CreateMessageResultWithTools(role="assistant", content=blocks, model="m", stop_reason="toolUse")
    async with connect_inside(saying(answer), tools=True) as agent:
        error = await agent.fails("read_file", path="src/a.py")
        assert reason(error) == "bad_answer"
        assert (await agent.noted())["cache"]["entries"] == 0


async def test_a_call_in_an_answer_cannot_touch_what_is_not_allowed(connect_inside):
    answer = types.CreateMessageResultWithTools(
        role="assistant", content=[use(path="../x", content="x")], model="m", stop_reason="toolUse"
    )
    async with connect_inside(saying(answer), tools=True) as agent:
        assert (await agent.fails("read_file", path="src/a.py")).error.code == -32001


async def test_answers_that_are_no_text_are_errors(connect_inside):
    picture = types.ImageContent(type="image", data="", mime_type="image/png")
    answer = types.CreateMessageResult(role="assistant", content=picture, model="m")
    async with connect_inside(saying(answer)) as agent:
        assert reason(await agent.fails("list_directory", path="src")) == "bad_answer"


async def test_a_batch_that_is_refused_does_not_feed_the_read_that_waits(connect_inside):
    async def script(agent, request):
        files = [agent.file("src/a.py"), {"path": "src/z", "content": "z", "mtime": 1e16}]
        assert (await agent.fails("guide_cache_file", files=files)).error.code == -32602
        return receipt(request["path"])

    async with connect_inside(script) as agent:
        assert reason(await agent.fails("read_file", path="src/a.py")) == "bad_answer"


@pytest.mark.parametrize("more", [{"size": -1}, {"mtime": "nan"}, {"mtime": "1e999"}, {"encoding": "no"}])
async def test_what_cannot_be_a_push_is_a_typed_error_and_an_event(connect_inside, more):
    async with connect_inside() as agent:
        result = await agent.client.call_tool("guide_cache_file", {"path": "src/a", "content": "x"})
        assert not result.is_error
        try:
            error = await agent.fails("guide_cache_file", path="src/a", content="x", **more)
        except AssertionError as refused:  # by the SDK, which reads the arguments first
            assert "Error executing tool" in str(refused)
            return
        assert error.error.code == -32602
        told = (await agent.noted())["operations"][-1]
    assert (told["tool"], told["target"], told["outcome"]) == ("guide_cache_file", "src/a", "invalid")


@pytest.mark.parametrize("pattern", ["{a,b}" * 8 + "*?" * 979, "*" * 129])
async def test_a_pattern_that_would_take_long_is_refused(connect_inside, pattern):
    async with connect_inside() as agent:
        started = time.process_time()
        error = await agent.fails("list_directory", path="src", pattern=pattern)
        assert time.process_time() - started < 1
    assert error.error.code == -32602
    assert agent.asked == []


async def test_a_folder_that_is_too_deep_is_refused(connect_inside):
    async with connect_inside() as agent:
        error = await agent.fails("list_directory", path="src/" + "a/" * 200)
    assert error.error.code == -32602


@pytest.mark.parametrize("root", ["/home/me/project", "C:\\work"])
def test_a_listing_of_thousands_of_links_in_a_deep_folder_takes_little_time(root):
    policy = SecurityPolicy(root)
    folder = PathValidator(policy).validate("src/" + "é/" * 80)
    entries = [{"name": f"l{number}", "type": "symlink", "target": "x"} for number in range(5_000)]
    said = {"path": folder, "complete": True, "count": len(entries), "entries": entries}
    started = time.process_time()
    assert len(read_listing(json.dumps(said), ListingRequest(folder), PathValidator(policy))) == 5_000
    assert time.process_time() - started < 8


async def test_a_client_that_never_tells_its_roots_is_waited_for_as_long_as_for_any_answer(project):
    async def never(_):
        await asyncio.sleep(60)

    server, _ = build({"seconds": 0.3}, None, None)
    agent = Agent(project, AT)
    async with Client(server, mode="legacy", list_roots_callback=never) as client:
        agent.client = client
        error = await agent.fails("guide_cache_file", path=f"{AT}/src/a", content="x")
    assert reason(error) == "sampling_timeout"


async def test_roots_are_asked_for_once_in_a_call(project):
    asked = []

    async def roots(_):
        asked.append(1)
        return types.ListRootsResult(roots=[types.Root(uri=f"file://{AT}")])

    server, _ = build({}, None, None)
    async with Client(server, mode="legacy", list_roots_callback=roots) as client:
        files = [{"path": f"{AT}/src/{number}", "content": "x"} for number in range(100)]
        result = await client.call_tool("guide_cache_file", {"files": files})
    assert result.structured_content["cached"] == 100
    assert len(result.structured_content["files"]) == 20
    assert asked == [1]
