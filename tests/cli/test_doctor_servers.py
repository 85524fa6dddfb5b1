"""What `toolyard doctor` says of servers and custom tools: of those whose files an agent's folder shares, too."""

from __future__ import annotations

from .conftest import Attached


def test_the_catalog_of_the_shared_root_is_looked_at_from_every_folder(attached: Attached) -> None:
    attached.run("sync")
    (attached.base / "elsewhere").mkdir()
    said = attached.run("doctor", "--workspace", str(attached.base / "elsewhere"))
    assert "servers: 1 with 9 tools, asked within the last day" in said


def test_a_server_that_failed_is_not_counted_with_those_that_answered(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["bad"] = {"command": [*servers["my-server"]["command"], "--fault", "dies-at-start"]}
    said = attached.run("sync", code=1)
    assert said.startswith("9 tools of 1 server and 1 custom tool; 1 failed: bad; asked 2, wrote ")
    assert attached.json("sync", "--dry-run", code=1)["servers"] == 2
    assert "warn  servers: 1 with 9 tools, asked within the last day; 1 failed: bad;" in attached.run("doctor")


def test_custom_tools_are_counted_and_what_is_wrong_with_one_is_said(attached: Attached) -> None:
    attached.document["toolyard"]["available_custom_tools"].append({"group": "gone", "path": "gone.py"})
    said = attached.run("doctor", code=1)
    assert "ok    custom tools: shop (1)" in said
    assert "fail  custom tool gone (gone.py):" in said


def test_before_the_first_sync_the_command_to_run_is_whole(attached: Attached) -> None:
    said = attached.run("doctor")
    assert "servers: 1 configured, none asked yet" in said
    assert f"(Run `toolyard sync --config {attached.config} --state {attached.state}`.)" in said


def test_a_server_with_the_name_of_our_file_tools_is_announced(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["filesystem"] = dict(servers["my-server"])
    assert "warn  server filesystem: " in attached.run("doctor")
    attached.run("sync")
    assert "servers.filesystem_server" in attached.run("doctor")


def test_the_command_line_calls_our_file_tool_and_the_servers_by_different_names(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["filesystem"] = dict(servers["my-server"])
    ours = attached.json("call", "filesystem", "write_file", "--args", '{"path": "made.txt", "content": "x"}')
    theirs = attached.json("call", "filesystem_server", "echo", "--args", '{"text": "hello"}')
    assert (ours["isError"], theirs["content"][0]["text"]) == (False, "hello")
    assert (attached.base / "ws" / "made.txt").read_text() == "x"
    assert "filesystem_server.echo" in attached.run("tools", "list")
