"""What is answered before the SDK is loaded is what it answers, byte for byte, and it goes on from there."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from dataclasses import replace

import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.core.calls import Blob, Image, Result, Text
from toolyard.transports.json_encoding import result_json
from toolyard.transports.mcp import handshake, server_info
from toolyard.transports.mcp.sdk_encoding import sdk_result
from toolyard.transports.mcp.sdk_loader import SdkLoader
from toolyard.transports.mcp.serve_stdio import serve_lines

CLIENT = {"name": "tests", "version": "1"}
MODERN = {
    PROTOCOL_VERSION_META_KEY: MODERN_PROTOCOL_VERSIONS[-1],
    CLIENT_CAPABILITIES_META_KEY: {},
    CLIENT_INFO_META_KEY: CLIENT,
}
CHUNK = 1 << 16
MANY = 600


def request(number, method, params=None):
    said = {"jsonrpc": "2.0", "id": number, "method": method}
    return said if params is None else {**said, "params": params}


def hello(number=0, version=LATEST_HANDSHAKE_VERSION, client=CLIENT, capabilities=None, **more):
    params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": client, **more}
    return request(number, "initialize", params)


def modern(number, method, meta=MODERN, **params):
    return request(number, method, {**params, "_meta": meta})


def notice(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", **({"params": params} if params else {})}


READ = {"name": "Read", "arguments": {"file_path": "a.txt"}}
INITIALIZED = notice("initialized")
LIST, PING, CALL = request(1, "tools/list"), request("p", "ping"), request(2, "tools/call", READ)
PLAIN = [hello(), INITIALIZED, LIST, PING]

ALONE = {  # scripts that never need the SDK
    "the usual beginning": PLAIN,
    "a call after the handshake": [hello(), CALL],
    "everything at once": [*PLAIN, CALL, request(3, "tools/call", READ), request("p2", "ping")],
    "a listing without the notification": [hello(), LIST],
    "parameters that say nothing": [hello(), request(1, "tools/list", {}), request(2, "ping", {"_meta": {}})],
    "progress tokens": [hello(), request(1, "tools/list", {"_meta": {"progressToken": 7}})],
    "capabilities of every usual kind": [
        hello(
            capabilities={
                "roots": {"listChanged": True},
                "elicitation": {"form": {"applyDefaults": True}, "url": {}},
                "sampling": {"context": {}, "tools": {}},
                "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}}},
                "experimental": {"x": {"y": [None, 1.5]}},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            }
        ),
        LIST,
    ],
    "a client that says more of itself": [
        hello(client={**CLIENT, "title": "T", "description": "D", "websiteUrl": "https://example.com"}),
        LIST,
    ],
    "notifications of every kind": [
        hello(),
        notice("roots/list_changed"),
        notice("cancelled", requestId=99),
        notice("cancelled", requestId=[]),
        notice("progress", progressToken=1, progress=2),
        notice("no/such"),
        LIST,
    ],
    "resources": [
        hello(),
        request(1, "resources/list"),
        request(2, "resources/list", {"cursor": "a.txt"}),
        request(3, "resources/list", {"cursor": "0"}),
        request(4, "resources/templates/list"),
    ],
    "empty lines": [b"", b"  \r", hello(), b"", LIST],
    "the same id twice": [hello(1), request(1, "ping"), request(1, "ping")],
    "nothing": [],
}
MIXED = {  # scripts in which the SDK takes over
    "a resource after the handshake": [
        *PLAIN,
        request(5, "resources/read", {"uri": "file:///nowhere"}),
        CALL,
        request("q", "ping"),
    ],
    "resources in odd ways": [
        hello(),
        request(1, "resources/list", {"cursor": 3}),
        request(2, "resources/list", {"_meta": {"progressToken": 1}}),
        request(3, "resources/templates/list", {"cursor": "x"}),
    ],
    "the notification after it took over": [hello(), request(5, "no/such"), INITIALIZED, LIST, CALL],
    "an unknown method": [*PLAIN, request(5, "no/such/method"), LIST],
    "a listing before the handshake": [LIST, hello(7), request(8, "tools/list")],
    "a ping before the handshake": [PING, hello(7), request(8, "tools/list")],
    "a call before the handshake": [CALL, hello(7), request(8, "tools/call", READ)],
    "a notification before the handshake": [INITIALIZED, LIST, hello(7)],
    "a second handshake": [
        *PLAIN,
        hello(5, "2024-11-05", {"name": "claude-code", "version": "1"}),
        request(6, "tools/list"),
        request(7, "tools/call", READ),
    ],
    "a second handshake that is none": [*PLAIN, request(5, "initialize", {}), request(6, "tools/list")],
    "a second handshake in other letters": [
        hello(),
        json.dumps(hello(5, client={"name": "claude-code", "version": "1"}))
        .replace('"initialize"', '"initi\\u0061lize"')
        .encode(),
        request(6, "tools/list"),
    ],
    "a handshake without a client": [request(0, "initialize", {"protocolVersion": "2025-11-25"}), LIST],
    "a handshake of wrong types": [
        hello(0, 7),
        hello(1, client={"name": 1, "version": "1"}),
        hello(2, capabilities=[1]),
    ],
    "unknown capabilities": [hello(capabilities={"own": {}}), LIST],
    "capabilities that are no objects": [hello(capabilities={"experimental": {"x": 3}}), LIST],
    "capabilities with odd parts": [hello(capabilities={"tasks": {"requests": {"x": {}}}, "sampling": {}}), LIST],
    "wrong capabilities": [hello(capabilities={"roots": 3}), LIST],
    "a wrong switch": [hello(capabilities={"roots": {"listChanged": [1]}}), LIST],
    "capabilities of null": [hello(capabilities={"elicitation": None}), LIST],
    "further parameters of a handshake": [hello(more=1, _meta={"progressToken": "x"}), LIST],
    "a name that is not ASCII": [hello(client={"name": "größe", "version": "1"}), LIST],
    "text that is not Unicode": [hello(), request("\ud800", "ping"), LIST],
    "a cursor": [*PLAIN, request(5, "tools/list", {"cursor": "x"}), request(6, "tools/list", {"cursor": 3})],
    "parameters of null": [*PLAIN, request(5, "tools/list", None) | {"params": None}],
    "parameters in a list": [*PLAIN, request(5, "tools/list") | {"params": [1]}],
    "further members": [*PLAIN, request(5, "ping") | {"more": 1}],
    "ids that are none": [*PLAIN, *(request(number, "ping") for number in (None, 1.5, True, [], {}))],
    "a response that nobody waits for": [*PLAIN, {"jsonrpc": "2.0", "id": 77, "result": {}}, LIST],
    "no version of JSON-RPC": [*PLAIN, {"id": 5, "method": "ping"}, LIST],
    "lines that are no messages": [hello(), b"{", b"[]", b"\xff\xfe", b"\xef\xbb\xbf{}", LIST],
    "broken from the first": [b"nonsense", *PLAIN, CALL],
    "a message that is UTF-16": [hello(), json.dumps(PING).encode("utf-16-le"), LIST],
    "notifications that are malformed": [hello(), notice("initialized", _meta=3), LIST],
    "an envelope after a handshake": [*PLAIN, modern(5, "tools/list"), modern(6, "server/discover"), LIST],
    "the later era": [modern(1, "server/discover"), modern(2, "tools/list"), modern(3, "tools/call", **READ)],
    "the later era without discovery": [modern(2, "tools/list"), modern(3, "no/such")],
    "the later era, nameless": [
        modern(2, "tools/list", {key: MODERN[key] for key in MODERN if key != CLIENT_INFO_META_KEY})
    ],
    "the later era with a token": [modern(2, "tools/list", {**MODERN, "progressToken": "t"})],
    "the later era, then a handshake": [modern(1, "tools/list"), hello(2), LIST, notice("initialized"), PING],
    "the later era, half": [modern(1, "tools/list", {PROTOCOL_VERSION_META_KEY: "2026-07-28"}), modern(2, "ping")],
    "a version still to come": [modern(1, "tools/list", {**MODERN, PROTOCOL_VERSION_META_KEY: "2099-01-01"})],
    "the later era, malformed": [
        modern(1, "tools/list", {**MODERN, CLIENT_INFO_META_KEY: 3}),
        modern(2, "tools/list", {**MODERN, CLIENT_CAPABILITIES_META_KEY: {"elicitation": 3}}),
        modern(3, "server/discover", {**MODERN, "more": 1}),
        modern(4, "server/discover", extra=1),
    ],
    "discovery without an envelope": [request(1, "server/discover"), hello(2), LIST],
}


def bytes_of(script):
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in script]
    return b"".join(line + b"\n" for line in lines)


@pytest.fixture
def yard(tmp_path, monkeypatch):
    """Opens yards on one workspace, in which nothing is warmed up."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("one\n")
    opened = []
    monkeypatch.setattr(Yard, "warm_up", lambda _: None)

    def opener(toolset=Toolset.CLAUDE):
        options = YardOptions(str(tmp_path / "ws"), Config(), toolset=toolset, state_home=str(tmp_path / "state"))
        opened.append(Yard.open(options))
        return opened[-1]

    yield opener
    for each in opened:
        each.close()


@pytest.fixture
def needed(monkeypatch):
    """Notes that the SDK was needed."""
    notes = []
    need = SdkLoader.start_loading

    def noted(self):
        notes.append(self)
        need(self)

    monkeypatch.setattr(SdkLoader, "start_loading", noted)
    return notes


async def served(yard, data):
    """The lines that come back, for the bytes that are sent before the input ends."""
    (far_in, near_in), (near_out, far_out) = os.pipe(), os.pipe()
    reading, writing = asyncio.to_thread(read_all, near_out), asyncio.to_thread(write_all, near_in, data)
    reader, writer = asyncio.ensure_future(reading), asyncio.ensure_future(writing)
    try:
        await serve_lines(yard, far_in, far_out)
    finally:
        os.close(far_in)
        os.close(far_out)
        await writer
        said = await reader
        os.close(near_out)
    return said.splitlines()


def read_all(fd):
    return b"".join(iter(lambda: os.read(fd, CHUNK), b""))


def write_all(fd, data):
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


async def by_the_sdk(yard, data, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(handshake, "plain_message", lambda _: None)
        return await served(yard, data)


@pytest.mark.parametrize("name", ALONE)
async def test_without_the_sdk_the_answers_are_the_ones_it_gives(yard, needed, monkeypatch, name):
    ours, its = yard(), yard()
    answers = await served(ours, bytes_of(ALONE[name]))

    assert not needed
    assert sorted(answers) == sorted(await by_the_sdk(its, bytes_of(ALONE[name]), monkeypatch))


@pytest.mark.parametrize("name", MIXED)
async def test_where_the_sdk_takes_over_it_answers_as_if_it_had_heard_everything(yard, needed, monkeypatch, name):
    ours, its = yard(), yard()
    answers = await served(ours, bytes_of(MIXED[name]))

    assert needed
    assert sorted(answers) == sorted(await by_the_sdk(its, bytes_of(MIXED[name]), monkeypatch))


async def test_many_resources_are_paged_as_by_the_sdk(yard, tmp_path, monkeypatch):
    for number in range(MANY):
        (tmp_path / "ws" / f"{number}.py").touch()
    first = bytes_of([hello(), request(1, "resources/list")])
    page = json.loads((await served(yard(), first))[1])["result"]
    data = bytes_of([hello(), request(1, "resources/list", {"cursor": page["nextCursor"]})])

    assert await served(yard(), first) == await by_the_sdk(yard(), first, monkeypatch)
    assert await served(yard(), data) == await by_the_sdk(yard(), data, monkeypatch)


async def test_who_is_not_served_the_reading_tools_gets_skills_alone_as_by_the_sdk(
    yard, tmp_path, needed, monkeypatch
):
    data = bytes_of([hello(), request(1, "resources/list")])
    for is_there in (False, True):
        if is_there:
            keep_skill(tmp_path / "ws")
        answers = await served(yard(Toolset.MINIMAL), data)
        assert not needed
        assert len(json.loads(answers[1])["result"]["resources"]) == is_there
        assert answers == await by_the_sdk(yard(Toolset.MINIMAL), data, monkeypatch)
        needed.clear()


def keep_skill(workspace, name="greet"):
    folder = workspace / "skills" / "a" / name
    folder.mkdir(parents=True)
    page = f'---\nname: {name}\ndescription: "Gr\u00fc\u00dft \\"all\\" & <each>: quickly"\n---\n'
    (folder / "SKILL.md").write_text(page)


async def test_skills_are_listed_before_files_as_by_the_sdk(yard, tmp_path, needed, monkeypatch):
    for number in range(250):
        keep_skill(tmp_path / "ws", f"s{number:03}")
    cursors = [{}, {"cursor": "skill://a/s199/SKILL.md"}, {"cursor": "skill://a/s249/SKILL.md"}]
    data = bytes_of([hello(), *(request(at, "resources/list", cursor) for at, cursor in enumerate(cursors, 1))])
    answers = await served(yard(), data)
    said = {answer["id"]: answer["result"] for answer in map(json.loads, answers)}
    firsts = [said[at]["resources"][0]["uri"].partition(":")[0] for at in (1, 2, 3)]
    assert firsts == ["skill", "skill", "file"]
    assert said[3]["resources"][0]["name"] == "a.txt"
    assert not needed
    assert sorted(answers) == sorted(await by_the_sdk(yard(), data, monkeypatch))


@pytest.mark.parametrize("client", ["tests", "claude-code"])
@pytest.mark.parametrize("toolset", list(Toolset))
async def test_every_toolset_is_listed_as_by_the_sdk_in_both_eras_and_every_version(
    yard, monkeypatch, toolset, client
):
    who = {"name": client, "version": "1"}
    versions = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS, "1999-12-31", ""]
    scripts = [[hello(0, version, who), INITIALIZED, LIST] for version in versions]
    scripts.append(
        [modern(1, method, {**MODERN, CLIENT_INFO_META_KEY: who}) for method in ("server/discover", "tools/list")]
    )
    ours, its = yard(toolset), yard(toolset)
    for script in scripts:
        answers = await served(ours, bytes_of(script))
        assert len(answers) == 2
        assert answers == await by_the_sdk(its, bytes_of(script), monkeypatch)


SCHEMAS = {
    "with references": {"type": "object", "$defs": {"x": {"type": "string"}}, "$schema": "http://json-schema.org/x"},
    "in another order": {"required": ["a"], "type": "object", "properties": {"a": {"default": None}, "b": True}},
    "of one word": {"type": "object"},
    "with a null": {"type": "object", "title": None},
    "with odd properties": {"type": "object", "properties": {"a": {}}, "required": None},
    "with wrong properties": {"type": "object", "properties": {"a": 3}},
    "of another type": {"type": "string"},
    "of no type": {"properties": {}},
}


@pytest.mark.parametrize("name", SCHEMAS)
async def test_a_schema_of_another_server_is_listed_as_by_the_sdk(yard, monkeypatch, name):
    ours, its = yard(), yard()
    for each in (ours, its):
        tool = replace(each.dispatch.tools["Read"], output=SCHEMAS[name])
        vars(tool)["input_schema"] = SCHEMAS[name]
        monkeypatch.setattr(each.dispatch, "tools", {"Read": tool})
    for script in ([hello(), LIST], [modern(1, "tools/list")]):
        data = bytes_of(script)
        assert await served(ours, data) == await by_the_sdk(its, data, monkeypatch)


async def test_many_lines_at_once_are_all_answered_in_order(yard, needed):
    lines = [hello(), *(request(number, "ping") for number in range(MANY)), request("end", "no/such")]
    lines += [request(number, "tools/call", READ) for number in range(MANY, MANY * 2)]
    answers = [json.loads(line)["id"] for line in await served(yard(), bytes_of(lines))]

    assert needed
    assert answers[: MANY + 1] == [0, *range(MANY)]
    assert sorted(answers[MANY + 1 :], key=str) == sorted(["end", *range(MANY, MANY * 2)], key=str)


def test_the_versions_are_the_ones_of_the_sdk():
    assert server_info.HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    assert (server_info.MODERN_VERSION,) == MODERN_PROTOCOL_VERSIONS


def test_every_kind_of_part_is_written_as_by_the_sdk():
    parts = (
        Text("ä"),
        Image(b"\x00", "image/png"),
        Blob(b"\x01", "audio/wav", "file:///a"),
        Blob(b"", "x/y", "file:///b"),
    )
    for structured in (True, False):
        result = Result(parts, {"a": [None, 1]})
        its = sdk_result(result, structured=structured).model_dump(by_alias=True, mode="json", exclude_none=True)
        ours = result_json(result, structured=structured)
        assert list(itertools.chain(*map(dict.items, ours["content"]))) == list(
            itertools.chain(*map(dict.items, its["content"]))
        )
        assert ours == {key: its[key] for key in ours} and its.keys() - ours.keys() <= {"resultType"}
