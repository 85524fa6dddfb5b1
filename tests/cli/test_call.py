"""`toolyard call`: any name a tool has, arguments from anywhere, and failures that a program can read."""

from __future__ import annotations

import json

import pytest

from .conftest import Attached

TEXT = '{"text": "hi"}'


@pytest.mark.parametrize(
    "words",
    [
        ("my-server", "echo"),
        ("my_server", "echo"),
        ("my-server.echo",),
        ("my_server.echo",),
        ("my-server/echo",),
        ("servers.my_server.echo",),
        ("servers/my_server/echo.py",),
        ("mcp__my-server__echo",),
    ],
    ids=".".join,
)
def test_a_tool_is_found_by_every_name_it_has(attached: Attached, words: tuple[str, ...]) -> None:
    assert attached.json("call", *words, "--args", TEXT)["content"][0]["text"] == "hi"


@pytest.mark.parametrize("words", [("tools.shop.price_of",), ("shop.price_of",), ("shop", "price_of")], ids=".".join)
def test_a_custom_tool_is_called_the_same_way(attached: Attached, words: tuple[str, ...]) -> None:
    answer = attached.json("call", *words, "--args", '{"part": "nut", "count": 4}')
    assert answer["structuredContent"] == {"result": 1.0}


def test_the_arguments_come_from_the_line_a_file_or_standard_input(attached: Attached) -> None:
    (attached.base / "given.json").write_text(TEXT)
    for words, stdin in ((("--args", TEXT), ""), (("--args", "@given.json"), ""), (("--args", "-"), TEXT)):
        assert attached.json("call", "my-server.echo", *words, stdin=stdin)["content"][0]["text"] == "hi"
    assert "standard input" not in attached.run("call", "my-server.echo", "--args", "-", stdin="{", code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("my-server.ecko",), "my-server has no tool 'ecko'. Did you mean my-server.echo"),
        (("myserver.echo",), "there is no tool myserver.echo. Did you mean my-server.echo"),
        (("echo",), "Did you mean my-server.echo?"),
        (("price_of",), "Did you mean tools.shop.price_of?"),
        (("tools.shop.prise_of",), "Did you mean tools.shop.price_of?"),
        (("qqqqqq.zzzzzz",), "`toolyard tools list"),
        (("my-server", "qqqqqq"), "It has echo, add, wait, fail, refuse, blob and 3 more."),
        (("a", "b", "c"), "Name one tool"),
    ],
    ids=lambda each: each if isinstance(each, str) else ".".join(each),
)
def test_a_name_that_is_nobodys_is_answered_with_the_nearest(
    attached: Attached, words: tuple[str, ...], said: str
) -> None:
    attached.run("sync")
    assert said in attached.run("call", *words, code=2)


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (("my-server.ecko",), 2, "validation"),
        (("my-server.wait", "--args", '{"seconds": 9}', "--timeout", "0.2"), 1, "tool"),
        (("my-server.wait", "--permission-mode", "plan"), 126, "security"),
    ],
    ids=["wrong use", "failed", "refused"],
)
def test_a_failure_is_json_too_and_has_its_exit_code(
    attached: Attached, words: tuple[str, ...], code: int, kind: str
) -> None:
    attached.run("sync")
    told = attached.json("call", *words, code=code)
    assert (told["isError"], told["error"]["kind"]) == (True, kind)
    assert told["error"]["message"]


def test_what_the_exit_codes_mean_stands_in_the_help(attached: Attached) -> None:
    assert "126 refused" in attached.run("call", "--help")


def test_a_server_that_cannot_be_asked_is_what_is_told_not_a_missing_tool(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["bad"] = {"command": [*servers["my-server"]["command"], "--fault", "dies-at-start"]}
    said = attached.run("call", "bad.anything", code=1)
    assert "Server 'bad' ended (exit code 3)" in said
    assert f"--config {attached.config}" in said  # of the command that it names


def test_a_refusal_says_which_argument_is_not_what_the_schema_asks_for(attached: Attached) -> None:
    said = attached.run("call", "my-server.refuse", "--args", '{"code": "x"}', code=1)
    assert """'code' has to be integer, and is the string "x".""" in said
    failed = attached.run("call", "my-server.fail", "--args", '{"text": 5}', code=1)
    assert "'text' has to be string, and is 5." in failed


def test_the_same_name_in_two_places_is_never_guessed(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["other"] = servers["my-server"]
    attached.run("sync")
    said = attached.run("call", "echo", code=2)
    assert "Did you mean my-server.echo or other.echo?" in said
    assert json.loads(attached.run("call", "other.echo", "--args", TEXT))["isError"] is False
