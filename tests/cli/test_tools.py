"""`toolyard tools`: what is known, where its file is, and whether it may be called."""

from __future__ import annotations

import json
import sys

from .conftest import Attached, ran_with

# Says what the file beside it has to say of its one tool.
TALKER = """
import json, pathlib, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    said = {"tools": [{"name": "say", "description": pathlib.Path(sys.argv[1]).read_text(), "inputSchema": {}}]}
    if message["method"] == "initialize":
        about = {"name": "t", "version": "1"}
        said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    known = message["method"] in ("initialize", "tools/list")
    told = {"result": said} if known else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)
"""


def test_every_tool_is_listed_with_its_file_and_state(attached: Attached) -> None:
    attached.run("sync")
    listed = {f"{each['server']}.{each['tool']}": each for each in attached.json("tools", "list")}
    assert len(listed) == 10
    echo = listed["my-server.echo"]
    assert {name: echo[name] for name in ("path", "signature", "summary", "state", "custom")} == {
        "path": "servers/my_server/echo.py",
        "signature": "echo(text: str) -> Result",
        "summary": "Say it again.",
        "state": "pinned",
        "custom": False,
    }
    assert (attached.base / "ws" / echo["path"]).exists()
    assert listed["shop.price_of"]["path"] == "tools/shop/price_of.py"
    assert (attached.base / "ws" / listed["shop.price_of"]["path"]).exists()


def test_one_servers_tools_are_listed_by_either_of_its_names(attached: Attached) -> None:
    attached.run("sync")
    for name in ("my-server", "my_server"):
        assert {each["server"] for each in attached.json("tools", "list", "--server", name)} == {"my-server"}
    assert [each["tool"] for each in attached.json("tools", "list", "--server", "shop")] == ["price_of"]
    assert 'Did you mean "my-server"?' in attached.run("tools", "list", "--server", "myserver", code=2)


def test_why_nothing_is_known_of_a_server_that_failed_is_said(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["broken"] = {"command": [*servers["my-server"]["command"], "--fault", "dies-at-start"]}
    attached.run("sync", code=1)
    said = attached.run("tools", "list", "--server", "broken", code=1)
    assert "No tools of 'broken' are known: it ended (exit code 3)" in said
    assert f"`toolyard sync broken --config {attached.config}" in said


def test_nothing_known_is_said_with_what_to_do(attached: Attached) -> None:
    del attached.document["toolyard"]["available_custom_tools"]
    assert "`toolyard sync --config" in attached.run("tools", "list")
    assert attached.json("tools", "list") == []


def test_a_tool_is_shown_with_its_arguments_and_how_to_import_it(attached: Attached) -> None:
    attached.run("sync")
    said = attached.run("tools", "show", "my-server.add")
    for line in (
        "add(a: float, b: float) -> AddResult",
        "from servers.my_server import add",
        "servers/my_server/add.py",
        "pinned",
        "Add two numbers.",
        "a (number, required)",
    ):
        assert line in said
    shown = attached.json("tools", "show", "tools.shop.price_of")
    assert shown["input_schema"]["required"] == ["part"]
    assert shown["description"] == "What a number of parts costs."
    assert "count (integer, default 1)" in attached.run("tools", "show", "shop", "price_of")


def test_what_an_agent_or_the_policy_is_denied_is_marked(attached: Attached) -> None:
    attached.document["agents"] = [{"id": "a", "backend": {"exclude_tools": ["my-server.crash"]}}]
    attached.document["permissions"] = {"deny": ["mcp__my-server__wait"], "ask": ["mcp__my-server__fail"]}
    attached.document["toolyard"]["tool_limits"] = {"shop.*": {"ask": True}}
    attached.run("sync")
    listed = {each["tool"]: each for each in attached.json("tools", "list")}
    states = {
        tool: (listed[tool]["state"], listed[tool]["asks"]) for tool in ("echo", "crash", "wait", "fail", "price_of")
    }
    assert states == {
        "echo": ("pinned", False),
        "crash": ("denied", False),
        "wait": ("denied", False),
        "fail": ("pinned", True),
        "price_of": ("pinned", True),
    }
    assert "not authorized for tool 'crash'" in listed["crash"]["reason"]
    assert "deny mcp__my-server__wait" in listed["wait"]["reason"]
    assert "my-server.crash  [denied]" in attached.run("tools", "list")


def test_what_changed_since_it_was_pinned_is_marked_and_how_to_trust_it_can_be_run(attached: Attached) -> None:
    text = attached.base / "text"
    text.write_text("Before.")
    command = [sys.executable, "-c", TALKER, str(text)]
    attached.document["toolyard"]["available_mcp_servers"] = {"talker": {"command": command}}
    attached.run("sync")
    text.write_text("After, and quite another thing.")
    said = attached.run("sync", code=1)
    trust = f"toolyard sync --accept talker --config {attached.config} --state {attached.state}"
    assert f"  To accept it: {trust}\n" in said
    assert attached.json("tools", "show", "talker.say")["state"] == "quarantined"
    assert "talker.say  [quarantined]" in attached.run("tools", "list")
    assert f"`{trust}`" in attached.run("call", "talker.say", code=126)
    assert json.loads(attached.run("sync", "--accept", "talker", "--json"))["quarantined"] == []
    assert attached.json("tools", "show", "talker.say")["state"] == "pinned"


def test_only_servers_of_this_configuration_are_listed(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["other"] = servers["my-server"]
    attached.run("sync")
    del servers["other"]
    assert {each["server"] for each in attached.json("tools", "list")} == {"my-server", "shop"}


def test_without_a_configuration_what_was_synced_is_listed_as_search_finds_it(attached: Attached) -> None:
    attached.run("sync")
    where = ("--workspace", str(attached.base / "ws"), "--state", str(attached.state))
    (found, *_) = json.loads(ran_with(["search", "add", "--json", *where], code=0, only="stdout"))
    name = f"{found['server']}.{found['tool']}"

    listed = json.loads(ran_with(["tools", "list", "--json", *where], code=0, only="stdout"))

    assert name in {f"{each['server']}.{each['tool']}" for each in listed}
    assert {each["state"] for each in listed} == {"unconfigured"}
    assert "pass its configuration with --config" in ran_with(["tools", "show", name, *where], code=0)
