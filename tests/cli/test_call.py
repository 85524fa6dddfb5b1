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
    ids=["wrong usage", "failed", "refused"],
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
    assert """By the schema of my-server.refuse: 'code' has to be an integer, and is the string "x".""" in said
    failed = attached.run("call", "my-server.fail", "--args", '{"text": 5}', code=1)
    assert "toolyard: By the schema of my-server.fail: 'text' has to be a string, and is 5." in failed


def test_a_custom_tools_wrong_arguments_are_said_once_each(attached: Attached) -> None:
    said = attached.run("call", "shop.price_of", "--args", '{"part": 1, "x": 3}', code=2)
    assert said == (
        "x: is not an argument of shop.price_of. Known here: count, part. "
        "By the schema of shop.price_of: 'part' has to be a string, and is 1."
    )


def test_a_file_of_arguments_that_is_not_there_is_named_in_plain_words(attached: Attached) -> None:
    said = attached.run("call", "my-server.echo", "--args", "@nope.json", code=2)
    assert "nope.json cannot be read: No such file or directory." in said
    assert "Errno" not in said


def test_a_call_that_ran_out_of_the_time_it_was_given_may_be_given_more(attached: Attached) -> None:
    words = ("call", "my-server.wait", "--args", '{"seconds": 9}', "--timeout", "0.2")
    assert "a higher `--timeout`" in attached.run(*words, code=1)


def test_what_an_agent_was_not_given_is_refused_with_where_that_is_said(attached: Attached) -> None:
    attached.document["agents"] = [{"id": "a", "backend": {"allowed_tools": ["my-server.add"]}}]
    told = attached.json("call", "my-server.echo", "--args", TEXT, code=126)["error"]
    assert told["message"] == "Agent 'a' not authorized for tool 'echo' of server 'my-server'"
    assert "`allowed_tools`" in told["hint"]


def test_the_same_name_in_two_places_is_never_guessed(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["other"] = servers["my-server"]
    attached.run("sync")
    said = attached.run("call", "echo", code=2)
    assert "Did you mean my-server.echo or other.echo?" in said
    assert json.loads(attached.run("call", "other.echo", "--args", TEXT))["isError"] is False


SAVING = '''
def save_note(path: str, text: str) -> str:
    """Writes a note."""
    with open(path, "w") as file:
        file.write(text)
    return path
'''


def test_what_a_tool_overwrites_is_kept_first_and_can_be_undone(attached: Attached) -> None:
    (attached.base / "notes.py").write_text(SAVING)
    attached.document["toolyard"]["available_custom_tools"] = [{"group": "notes", "path": "notes.py"}]
    note = attached.base / "ws" / "note.txt"
    note.write_text("the user's")
    given = json.dumps({"path": str(note), "text": "the tool's"})
    attached.json("call", "notes.save_note", "--args", given, "--permission-mode", "bypassPermissions")
    assert note.read_text() == "the tool's"
    taken = attached.json("snapshot", "list")
    assert [(each["reason"], each["changes"]) for each in taken] == [
        ("after notes.save_note", 1),
        ("before a change", None),
    ]
    attached.run("snapshot", "undo")
    assert note.read_text() == "the user's"


def test_a_tool_that_only_reads_has_no_snapshot_taken(attached: Attached) -> None:
    (attached.base / "ws" / "a.txt").write_text("a")
    attached.json("call", "shop.price_of", "--args", '{"part": "nut"}')
    assert attached.json("snapshot", "list") == []
