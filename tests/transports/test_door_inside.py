"""The door in this process: what the policy, the terms and other guests make of a call."""

from __future__ import annotations

import asyncio
import contextlib
import json

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.core.events import CallOutcome
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers.mcp_host import Host
from toolyard.storage.audit_reader import read
from toolyard.transports.client_profile import ClientProfile
from toolyard.transports.http import event_stream as outboxes
from toolyard.transports.http import routes as doors
from toolyard.transports.http.docs_page import docs_page
from toolyard.transports.http.event_stream import EventStream
from toolyard.transports.http.openapi import openapi_document
from toolyard.transports.mcp.http import ListenAddress, yard_app

SECONDS = 20
OK, DENIED, REFUSED = "result", "deny", "nobody"


@pytest.fixture
def options(tmp_path, monkeypatch):
    """The options of a yard on a workspace of its own: `options(mode=..., toolset=...)`."""
    monkeypatch.setattr(Yard, "warm_up", lambda _: None)

    def of(name="ws", **more):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "a.txt").write_text(f"of {name}\n")
        return YardOptions(str(tmp_path / name), Config(), state_home=str(tmp_path / f"state-{name}"), **more)

    return of


@contextlib.contextmanager
def entered(options, terms=None):
    with Yard.open(options) as yard:
        app = yard_app(yard, ListenAddress("127.0.0.1", 0), terms or ClientProfile())
        yield (
            yard,
            lambda: httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1", timeout=SECONDS
            ),
        )


async def executed(client, tool, /, **args):
    answer = await client.post("/execute", json={"tool_name": tool, "args": args})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.split("\n") if line]


def events(yard):
    return [record.event for record in read(yard.state)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (PermissionMode.STRICT, (OK, OK, OK)),
        (PermissionMode.PLAN, (OK, DENIED, DENIED)),
        (PermissionMode.ACCEPT_EDITS, (OK, OK, REFUSED)),
        (PermissionMode.MODERATE, (OK, OK, OK)),
        (PermissionMode.DEFAULT, (OK, REFUSED, REFUSED)),
        (PermissionMode.BYPASS, (OK, OK, OK)),
    ],
)
async def test_the_mode_decides_as_it_does_everywhere(options, mode, expected):
    with entered(options(mode=mode)) as (yard, client):
        async with client() as door:
            told = [
                (await executed(door, "Read", file_path="a.txt"))[-1],
                (await executed(door, "Write", file_path="new.txt", content="new"))[-1],
                (await executed(door, "Bash", command="touch made"))[-1],
            ]
        recorded = events(yard)
    kinds = [
        OK if line["type"] == "result" else REFUSED if "No one can approve it here" in str(line) else DENIED
        for line in told
    ]
    assert tuple(kinds) == expected
    assert all(line["error"]["kind"] == "security" and line["error"]["hint"] for line in told if "error" in line)
    outcomes = [CallOutcome.OK if kind == OK else CallOutcome.DENIED for kind in kinds]
    assert [(event.surface, event.outcome) for event in recorded] == [("http", outcome) for outcome in outcomes]


async def test_whoever_the_terms_name_is_asked(options):
    asked = []

    async def answer(action, decision):
        asked.append((action.tool, decision.effect.value))
        return len(asked) == 1

    with entered(options(mode=PermissionMode.DEFAULT), ClientProfile(ask=answer)) as (_, client):
        async with client() as door:
            yes = (await executed(door, "Write", file_path="b.txt", content="b"))[-1]
            no = (await executed(door, "Write", file_path="c.txt", content="c"))[-1]
    assert (yes["type"], no["error"]["kind"]) == ("result", "security")
    assert asked == [("Write", "ask")] * 2


async def test_tools_go_by_the_names_of_the_terms(options):
    with entered(options(), ClientProfile(served_names={"Read": "yard_Read"})) as (yard, client):
        async with client() as door:
            tools = (await door.get("/tools")).json()["tools"]
            line = (await executed(door, "yard_Read", file_path="a.txt"))[-1]
            missing = await door.post("/execute", json={"tool_name": "yard_Raed"})
        recorded = events(yard)
    assert (tools[0]["name"], tools[0]["title"]) == ("yard_Read", "Read")
    assert "of ws" in line["content"][0]["text"]
    assert (missing.status_code, missing.json()["error"]["hint"]) == (404, "Did you mean yard_Read?")
    assert [(event.tool, event.outcome) for event in recorded] == [
        ("Read", CallOutcome.OK),
        ("yard_Raed", CallOutcome.INVALID),
    ]


async def test_more_calls_than_can_be_are_put_off(options, monkeypatch):
    monkeypatch.setattr(doors, "_MAX_CALLS", 0)
    with entered(options()) as (_, client):
        async with client() as door:
            answer = await door.post("/execute", json={"tool_name": "LS"})
    error = answer.json()["error"]
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert (error["retryable"], error["ran"]) == (True, False)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.sampled_from(["file_path", "path", "pattern", "limit", "offset", "x"]), JSON_VALUES)
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "tool_name": st.sampled_from(["Read", "LS", "Glob", "", "\0"]) | JSON_VALUES,
        "args": ARGS | JSON_VALUES,
        "more": JSON_VALUES,
    },
)
BODIES = st.binary(max_size=50) | (JSON_VALUES | ASKED).map(lambda value: json.dumps(value).encode())


def test_no_body_makes_the_server_fail(options):
    with entered(options(mode=PermissionMode.PLAN)) as (_, client), asyncio.Runner() as runner:
        door = client()

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(BODIES)
        def takes(body):
            posted = door.post("/execute", content=body, headers={"Content-Type": "application/json"})
            answer = runner.run(posted)
            assert answer.status_code in {200, 400, 404}
            lines = [json.loads(line) for line in answer.content.split(b"\n") if line]
            if answer.status_code == 200:
                assert [line["type"] in {"result", "error"} for line in lines] == [True]
                assert "inside Toolyard" not in str(lines)
            else:
                assert lines[0]["error"]["ran"] is False

        takes()
        runner.run(door.aclose())


async def test_each_token_of_a_host_opens_its_own_workspace_until_it_is_dead(options):
    with Host() as host:
        async with contextlib.AsyncExitStack() as stack:
            stays = [
                await stack.enter_async_context(host.lease(options(name), lambda _: ClientProfile()))
                for name in ("one", "two")
            ]
            base = host.url.removesuffix("/mcp")
            client = await stack.enter_async_context(httpx2.AsyncClient(base_url=base, timeout=SECONDS))
            for stay, name in zip(stays, ("one", "two"), strict=True):
                client.headers["Authorization"] = f"Bearer {stay.token}"
                (line,) = await executed(client, "Read", file_path="a.txt")
                assert f"of {name}" in line["content"][0]["text"]
                assert (await client.get("/tools")).status_code == 200
                assert not stay.attached.is_set()  # that takes the client's own tools/list
            outside = (await executed(client, "Read", file_path=f"{stays[0].yard.mounts.workspace.path}/a.txt"))[-1]
            assert outside["error"]["kind"] == "security"
        async with httpx2.AsyncClient(base_url=base) as late:
            dead = {"Authorization": f"Bearer {stays[0].token}"}
            assert (await late.get("/tools", headers=dead)).status_code == 401


async def test_a_run_that_ends_cancels_what_it_called(options, tmp_path):
    with Host() as host:
        base = host.url.removesuffix("/mcp")
        async with httpx2.AsyncClient(base_url=base, timeout=SECONDS) as client:
            async with contextlib.AsyncExitStack() as stack:
                stay = await stack.enter_async_context(host.lease(options(), lambda _: ClientProfile()))
                body = {"tool_name": "Bash", "args": {"command": "echo up; sleep 30"}}
                bearer = {"Authorization": f"Bearer {stay.token}"}
                request = client.build_request("POST", "/execute", json=body, headers=bearer)
                lines = (await client.send(request, stream=True)).aiter_lines()
                first = json.loads(await anext(lines))
                assert first["text"] == "up\n"
                state = stay.yard.state
            rest = [json.loads(line) async for line in lines]
    assert (rest[-1]["type"], rest[-1]["error"]["retryable"]) == ("error", True)
    assert [(record.event.tool, record.event.outcome) for record in read(state)] == [("Bash", CallOutcome.CANCELLED)]


@pytest.mark.parametrize("toolset", [Toolset.ALL, Toolset.CODE])
async def test_the_description_is_valid_and_names_every_tool(options, toolset):
    with entered(options(toolset=toolset)) as (yard, client):
        async with client() as door:
            said = (await door.get("/openapi.json")).json()
            shown = await door.get("/docs")
        names = list(yard.dispatch.tools)
    OpenAPIV31SpecValidator(said).validate()
    schemas = said["components"]["schemas"]
    asked = [schemas[each["$ref"].rpartition("/")[2]] for each in schemas["Asked"]["oneOf"]]
    assert [each["properties"]["tool_name"]["const"] for each in asked] == names
    assert all(f"<code>{name}</code>" in shown.text for name in names)
    assert "default-src 'none'" in shown.headers["content-security-policy"]


HOSTILE = "</pre><script>alert('x')</script><img src=x onerror=\"y\">&"


def tool(**more):
    flags = {"read_only": True, "destructive": False, "idempotent": True}
    schema = {"type": "object", "properties": {}}
    return {
        "name": "t",
        "title": "t",
        "description": "",
        "input_schema": schema,
        "output_schema": schema,
        **flags,
        **more,
    }


def test_nothing_that_a_tool_says_becomes_part_of_the_page():
    schema = {"type": "object", "properties": {HOSTILE: {"description": HOSTILE}}}
    shown = docs_page([tool(name=HOSTILE, description=HOSTILE, input_schema=schema, output_schema=schema)])
    assert "<script" not in shown
    assert "<img" not in shown
    assert shown.count("&lt;script&gt;") >= 6


def test_a_schema_that_points_into_itself_points_there_in_the_description_too():
    inner = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "all": {"$ref": "#"}}}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/x",
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "required": ["node"],
        "$defs": {"Node": inner},
    }
    said = openapi_document([tool(name="odd name/é", input_schema=schema), tool(name="odd name/è")])
    OpenAPIV31SpecValidator(said).validate()
    place = "#/components/schemas/tool0.odd_name__.args"
    moved = said["components"]["schemas"]["tool0.odd_name__.args"]
    assert moved["properties"]["node"] == {"$ref": f"{place}/$defs/Node"}
    assert moved["$defs"]["Node"]["properties"]["all"] == {"$ref": place}
    assert {"$schema", "$id"} & moved.keys() == set()


async def test_letters_cut_in_two_come_whole_and_what_is_too_much_is_counted(monkeypatch):
    monkeypatch.setattr(outboxes, "_MAX_BUFFERED_BYTES", 8)
    box = EventStream()
    lines = box.lines()
    box.add_output("stdout", "é".encode()[:1])
    box.add_output("stderr", b"e")
    assert await anext(lines) == {"type": "output", "stream": "stderr", "text": "e"}
    box.add_output("stdout", "é".encode()[1:])
    assert await anext(lines) == {"type": "output", "stream": "stdout", "text": "é"}
    box.add_output("stdout", b"12345678")
    box.add_output("stdout", b"9")
    assert await anext(lines) == {"type": "output", "stream": "stdout", "text": "12345678"}
    assert await anext(lines) == {"type": "output", "stream": "stdout", "text": "", "dropped": 1}
    await box.set_progress(1, None, "first")
    await box.set_progress(2, 3, "second")
    box.add_output("stdout", "é".encode()[:1])
    box.close()
    assert [line async for line in lines] == [
        {"type": "output", "stream": "stdout", "text": "\ufffd"},
        {"type": "progress", "done": 2, "total": 3, "message": "second"},
    ]
