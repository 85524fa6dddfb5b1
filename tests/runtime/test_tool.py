"""A tool as agent code meets it: what is sent, what comes back, what is raised."""

from __future__ import annotations

import inspect
import json
import pickle
from typing import TypedDict

import pytest

from toolyard_runtime import calls, errors
from toolyard_runtime.results import Record, Result
from toolyard_runtime.tool import OMITTED, custom_tool, tool


class Shape(TypedDict):
    ok: bool


@tool("server", "do-it", {"from_": "from"})
async def do_it(path: str, count: int, *, from_: str = "here", tail: float = ...) -> Result:
    """Do it."""
    raise AssertionError("the body of a tool never runs")


@tool("server", "shaped")
async def shaped() -> Shape: ...


@custom_tool("web.navigate")
async def navigate(url: str) -> Shape: ...


@pytest.fixture
def host(monkeypatch):
    """In the place of the host: notes calls, answers what it was told to."""

    class Host:
        answer = Result([{"type": "text", "text": "done"}], {"ok": True})
        custom_answer = {"title": "Home", "links": [{"href": "/"}]}
        asked: list = []

        async def call(self, server, tool, arguments, **options):
            return self.call_sync(server, tool, arguments, **options)

        def call_sync(self, server, tool, arguments, **options):
            self.asked.append((server, tool, arguments, options))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        async def custom(self, name, **arguments):
            return self.custom_sync(name, **arguments)

        def custom_sync(self, name, **arguments):
            self.asked.append((name, arguments))
            return self.custom_answer

    host = Host()
    host.asked = []
    monkeypatch.setattr(calls, "call_mcp_tool", host.call)
    monkeypatch.setattr(calls, "call_mcp_tool_sync", host.call_sync)
    monkeypatch.setattr(calls, "call_custom_tool", host.custom)
    monkeypatch.setattr(calls, "call_custom_tool_sync", host.custom_sync)
    return host


async def test_only_what_was_given_is_sent_under_the_servers_names(host):
    await do_it("a", 2)
    await do_it("a", count=2, from_="there")
    do_it.sync(count=1, path="b", tail=0.5)
    assert host.asked == [
        ("server", "do-it", {"path": "a", "count": 2}, {}),
        ("server", "do-it", {"path": "a", "count": 2, "from": "there"}, {}),
        ("server", "do-it", {"count": 1, "path": "b", "tail": 0.5}, {}),
    ]


async def test_none_is_sent_and_omitted_is_not(host):
    await do_it("a", 1, from_=None, tail=OMITTED)
    assert host.asked[0][2] == {"path": "a", "count": 1, "from": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        (("a",), {}, "missing 1 required positional argument: 'count'"),
        (("a", 1, "extra"), {}, "takes 2 positional arguments but 3 were given"),
        (("a", 1), {"colour": "red"}, "unexpected keyword argument 'colour'"),
        (("a", 1), {"path": "b"}, "multiple values for argument 'path'"),
    ],
)
def test_wrong_arguments_raise_what_python_raises(host, args, kwargs, said):
    with pytest.raises(TypeError, match=f"do_it\\(\\) .*{said}"):
        do_it(*args, **kwargs)  # at once, not when it is awaited
    with pytest.raises(TypeError, match=said):
        do_it.sync(*args, **kwargs)
    assert host.asked == []


async def test_a_declared_shape_is_what_comes_back(host):
    assert await shaped() == {"ok": True}
    assert shaped.sync() == {"ok": True}
    assert (await do_it("a", 1)).text == "done"


async def test_a_server_that_does_not_keep_its_promise_gives_the_result(host):
    host.answer = Result([{"type": "text", "text": "plain words"}])
    answer = await shaped()
    assert isinstance(answer, Result)
    assert answer.text == "plain words"
    with pytest.raises(KeyError, match=r"it is text, read it with .text"):
        _ = answer["ok"]


async def test_a_custom_tools_answer_reads_by_key_and_by_attribute(host):
    page = await navigate("x")
    assert (page["title"], page.title, page.links[0].href) == ("Home", "Home", "/")
    assert navigate.sync(url="x") == {"title": "Home", "links": [{"href": "/"}]}
    assert host.asked == [("web.navigate", {"url": "x"})] * 2
    with pytest.raises(AttributeError, match=r"The result has no 'tilte'. It has: links, title."):
        _ = page.tilte


async def test_a_deadline_and_progress_can_be_given(host):
    def told(done, total, message): ...

    await do_it.options(timeout=2.5, progress=told)("a", 1)
    await do_it("a", 1)
    assert host.asked[0][3] == {"timeout": 2.5, "progress": told}
    assert host.asked[1][3] == {}


async def test_failures_come_through(host):
    host.answer = errors.ToolError("It broke.", "server", "do-it")
    with pytest.raises(RuntimeError, match="It broke"):
        await do_it("a", 1)


def test_a_tool_explains_itself():
    assert do_it.__doc__ == "Do it."
    assert do_it.__name__ == "do_it"
    assert list(inspect.signature(do_it).parameters) == ["path", "count", "from_", "tail"]
    assert repr(do_it) == "<tool server.do-it>"
    assert repr(navigate) == "<custom tool web.navigate>"


def test_a_result_reads_in_every_way():
    result = Result([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], {"n": 1})
    assert (result.text, str(result)) == ("one\ntwo", "one\ntwo")
    assert result["n"] == result.get("n") == 1
    assert "n" in result and "m" not in result
    assert result.get("m", 5) == 5
    with pytest.raises(KeyError, match=r"The result has no 'm'. It has: n."):
        _ = result["m"]
    assert result == Result([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], {"n": 1})
    assert result != Result()


def test_text_that_is_json_is_read_as_such():
    assert Result([{"type": "text", "text": ' {"a": [1]}'}])["a"] == [1]
    assert Result([{"type": "text", "text": "[1, 2]"}])[1] == 2
    assert Result([{"type": "text", "text": "{broken"}]).structured is None
    assert Result([{"type": "text", "text": "5"}]).structured is None
    assert Result([{"type": "text", "text": "[" * 100_000}]).structured is None


def test_what_the_server_structured_is_believed_before_its_text():
    assert Result([{"type": "text", "text": '{"a": 1}'}], {"a": 2})["a"] == 2


def test_binary_content_is_bytes(tmp_path):
    result = Result(
        [
            {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///x", "blob": "AAE=", "mimeType": "application/x"}},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "words"}},
            {"type": "resource_link", "uri": "https://a.example/z", "name": "z"},
        ]
    )
    image, blob, text, link = result.content
    assert (image.data, image.mime_type, image["type"]) == (b"\x89PNG", "image/png", "image")
    assert (blob.data, blob.uri, blob.mime_type) == (b"\x00\x01", "file:///x", "application/x")
    assert (text.text, text.data) == ("words", b"words")
    assert (link.uri, link.name, link.type) == ("https://a.example/z", "z", "resource_link")
    assert image.save(str(tmp_path / "a.png")) == str(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == b"\x89PNG"
    assert repr(result) == (
        "Result(<image image/png>, <resource application/x file:///x>, <resource file:///y>, "
        "<resource_link https://a.example/z>)"
    )


def test_a_record_is_still_a_dictionary():
    record = Record({"a": {"b": 1}})
    assert json.dumps(record) == '{"a": {"b": 1}}'
    assert record.a.b == 1
    assert pickle.loads(pickle.dumps(record)) == record


@pytest.mark.parametrize(
    ("kind", "bases"),
    [
        ("tool", (errors.ToolError, RuntimeError)),
        ("timeout", (errors.ToolTimeout, errors.ToolError, TimeoutError)),
        ("unavailable", (errors.ServerUnavailable, RuntimeError)),
        ("invalid", (errors.InvalidArguments, ValueError)),
        ("lost", (errors.BrokerLost, ConnectionError)),
        ("permission", (PermissionError,)),
        ("anything else", (RuntimeError,)),
    ],
)
def test_each_kind_of_failure_is_what_code_would_catch(kind, bases):
    error = errors.exception_for(kind, "Agent 'a' not authorized for server 'x'", server="x", tool="t")
    assert all(isinstance(error, base) for base in bases)
    assert str(error) == "Agent 'a' not authorized for server 'x'"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    if kind not in {"permission", "anything else"}:
        assert (again.server, again.tool) == ("x", "t")
