"""Two servers in one folder, each for an agent of its own, without a run and without a configuration."""

import contextlib
import sys
import time

import pytest

from toolyard.testing.mcp_client import StdioClient, expect_result


@pytest.fixture
def serve(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "project"
    folder.mkdir()
    with contextlib.ExitStack() as clients:

        def opened(agent):
            command = [
                sys.executable,
                "-m",
                "toolyard",
                "mcp",
                "--workspace",
                str(folder),
                "--tools",
                "claude,workspace",
            ]
            return clients.enter_context(StdioClient([*command, *(["--agent", agent] if agent else [])]))

        yield opened


def call(client, tool, **arguments):
    return expect_result(client.request("tools/call", {"name": tool, "arguments": arguments}))


def newest_with(client, files):
    """The newest snapshot, once it holds so many files."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        newest = call(client, "snapshot_list")["structuredContent"]["snapshots"][0]
        if newest["files"] == files:
            return newest
        time.sleep(0.05)
    raise AssertionError(f"no snapshot with {files} files within 30 seconds")


def test_a_change_is_its_makers_whichever_server_takes_the_snapshot(serve):
    clients = {"anna": serve("anna"), "bert": serve("bert")}
    for agent, client in clients.items():
        call(client, "Bash", command=f"echo 1 > {agent}.txt")
    newest_with(clients["anna"], 2)
    found = []
    for number in range(3):
        for agent, client in clients.items():
            call(client, "Write", file_path=f"{agent}{number}.txt", content="1")
            newest = newest_with(client, 3 + len(found))
            found.append((newest["agent"], newest["reason"]))

    assert found == [("anna", "after Write"), ("bert", "after Write")] * 3


def test_a_server_without_a_named_agent_records_no_authors(serve, tmp_path):
    client = serve(None)
    call(client, "Write", file_path="a.txt", content="1")
    newest_with(client, 1)
    assert not list((tmp_path / "state").rglob("authors.sqlite3"))
