"""`sync`, `search`, `call`, `exec` and `doctor` with MCP servers attached."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOLYARD = [sys.executable, "-m", "toolyard"]
SERVER = [sys.executable, "-m", "toolyard.testing.mock_mcp_server"]


@pytest.fixture
def run(tmp_path: Path):
    """Runs a command with a configuration of one real server; the state goes to a folder of its own."""
    (tmp_path / "ws").mkdir()
    config = tmp_path / "team.yaml"
    config.write_text(
        "toolyard:\n  workspace: ws\n  available_mcp_servers:\n"
        f"    - {{name: my-server, command: {json.dumps(SERVER[0])}, args: {json.dumps(SERVER[1:])}}}\n"
    )

    def runner(*words: str, code: int = 0, config: Path = config) -> str:
        command = [*TOOLYARD, *words, "--config", str(config), "--state", str(tmp_path / "state")]
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    return runner


def test_from_sync_to_a_call_from_code(run) -> None:
    report = json.loads(run("sync", "--json"))
    assert {name: report[name] for name in ("servers", "tools", "failed")} == {"servers": 1, "tools": 9, "failed": []}
    assert report["written"] > 9
    assert json.loads(run("sync", "--json"))["written"] == 0
    (hit, *_) = json.loads(run("search", "add two numbers", "--json"))
    assert {name: hit[name] for name in ("server", "tool", "path", "summary")} == {
        "server": "my-server",
        "tool": "add",
        "path": "servers/my_server/add.py",
        "summary": "Add two numbers.",
    }
    answer = json.loads(run("call", "my-server", "add", "--args", '{"a": 40, "b": 2}'))
    assert (answer["structuredContent"], answer["isError"]) == ({"sum": 42}, False)
    code = "from servers.my_server import add\nprint((await add(a=1, b=2))['sum'], add.sync(a=3, b=4)['sum'])"
    assert run("exec", "-c", code) == "3 7\n"


def test_a_call_before_any_sync_asks_that_server_first(run) -> None:
    assert json.loads(run("call", "my-server", "echo", "--args", '{"text": "hi"}'))["content"][0]["text"] == "hi"


def test_what_a_person_reads_says_what_changed_and_what_it_saves(run) -> None:
    told = run("sync")
    assert "9 tools of 1 server;" in told
    assert "+ my-server.add" in told
    assert "tokens" in told
    assert "my-server.echo  servers/my_server/echo.py" in run("search", "say it again")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("call", "my-server", "fail", "--args", '{"text": "no luck"}'), 1, "no luck"),
        (("call", "my-server", "ad"), 2, "Did you mean my-server.add?"),
        (("call", "myserver", "add"), 2, "Did you mean my-server.add"),
        (("call", "my-server", "add", "--args", "[1]"), 2, "expected an object"),
        (("call", "my-server", "add", "--args", "{"), 2, "not JSON"),
        (("call", "my-server", "add", "--args", "@missing.json"), 2, "cannot be read"),
        (("call", "my-server", "wait", "--args", '{"seconds": 9}', "--timeout", "0.2"), 1, "0.2 s"),
        (("call", "my-server", "wait", "--args", '{"seconds": 0}', "--permission-mode", "plan"), 126, "plan mode"),
        (("search", "zzzzqqq"), 1, "No tool matches."),
        (("sync", "nobody"), 2, "there is no server 'nobody'"),
    ],
)
def test_what_goes_wrong_is_said_and_has_its_exit_code(run, words, code: int, said: str) -> None:
    run("sync")
    assert said in run(*words, code=code)


def test_searching_before_any_sync_says_what_to_do(run) -> None:
    assert "run `toolyard sync --config " in run("search", "anything", code=1)


def test_searching_without_servers_says_how_to_add_one(run, tmp_path: Path) -> None:
    config = tmp_path / "none.yaml"
    config.write_text("toolyard: {workspace: ws}\n")
    for _ in range(2):
        said = run("search", "anything", code=1, config=config)
        assert "No servers are configured. Add one under `toolyard.available_mcp_servers`" in said
        run("sync", config=config)


def test_searching_after_every_server_failed_says_which(run, tmp_path: Path) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("toolyard: {workspace: ws, available_mcp_servers: [{name: bad, command: /no/such/program}]}\n")
    run("sync", code=1, config=config)
    said = run("search", "anything", code=1, config=config)
    assert "No server has answered: 1 failed: bad. `toolyard doctor " in said


def test_a_server_that_does_not_start_is_named_by_sync_and_by_doctor(run, tmp_path: Path) -> None:
    config = tmp_path / "bad.yaml"
    args = json.dumps([*SERVER[1:], "--fault", "dies-at-start"])
    config.write_text(
        "toolyard:\n  workspace: ws\n  available_mcp_servers:\n"
        f"    - {{name: bad, command: {json.dumps(SERVER[0])}, args: {args}}}\n"
    )
    told = run("sync", "--json", code=1, config=config)
    assert [failed["server"] for failed in json.loads(told)["failed"]] == ["bad"]
    told = run("doctor", config=config)
    assert "server bad" in told
    assert "toolyard sync bad" in told


def test_a_configuration_that_was_only_found_attaches_nothing(run, tmp_path: Path) -> None:
    (tmp_path / "toolyard.yaml").write_text((tmp_path / "team.yaml").read_text())
    command = [*TOOLYARD, "sync", "--state", str(tmp_path / "state")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert ran.returncode == 2
    assert "MCP servers" in ran.stderr
    assert not (tmp_path / "ws/servers").exists()


def test_a_set_of_tools_that_does_not_reach_the_servers_says_so(run) -> None:
    assert "--tools code does" in run("mcp", "--tools", "claude")
    assert "--tools code does" not in run("mcp", "--tools", "minimal")
