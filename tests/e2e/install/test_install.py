"""The real clients see what `toolyard install` wrote into their settings, and can start it."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib

import pytest

from toolyard.drivers.registry import driver_of

COLOR = re.compile(r"\x1b\[[0-9;]*m")
# What a client prints of a server that answered. Codex starts none for its list.
SEEN = {
    "claude": r"toolyard: \S+/toolyard mcp --workspace \S+ - ✔ Connected",
    "gemini": r"✓ toolyard: \S+/toolyard mcp --workspace \S+ \(stdio\) - Connected",
    "qwen": r"✓ toolyard: \S+/toolyard mcp --workspace \S+ \(stdio\) - Connected",
    "opencode": r"✓ toolyard\s+connected",
    "codex": r"toolyard +\S+/toolyard +mcp --workspace \S+ .*enabled",
}


@pytest.fixture
def shell(npm, yard):
    """Runs a command in the workspace, in a home of its own; what it prints."""
    environment = yard.environment(npm, TERM="dumb", GEMINI_CLI_TRUST_WORKSPACE="true")
    environment["PATH"] = f"{npm.folder}/node_modules/.bin:{environment['PATH']}"

    def run(*words):
        ended = subprocess.run(
            words,
            env=environment,
            cwd=yard.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return COLOR.sub("", ended.stdout + ended.stderr)

    run.environment = environment
    return run


def toolyard(shell, yard, *words):
    return json.loads(shell(yard.command()[0], *words, "--json"))


@pytest.mark.parametrize("client", [*SEEN])
def test_the_client_sees_the_entry_and_connects(shell, yard, client):
    assert toolyard(shell, yard, "install", client)["outcome"] == "added"
    assert re.search(SEEN[client], shell(client, "mcp", "list"))
    assert toolyard(shell, yard, "install", client)["outcome"] == "unchanged"
    assert toolyard(shell, yard, "uninstall", client)["outcome"] == "removed"
    assert "toolyard mcp" not in shell(client, "mcp", "list")


@pytest.mark.parametrize("client", ["qwen", "opencode", "gemini"])
def test_the_client_sees_the_entry_of_a_project(shell, yard, client):
    toolyard(shell, yard, "install", client, "--scope", "project")
    assert re.search(SEEN[client], shell(client, "mcp", "list"))


def test_claude_code_sees_the_entry_of_a_project_and_asks_about_it(shell, yard):
    toolyard(shell, yard, "install", "claude", "--scope", "project")
    assert re.search(r"toolyard: .* Pending approval", shell("claude", "mcp", "list"))


ADD = {
    "claude": ("mcp", "add", "--scope", "user", "theirs", "--", "/bin/true", "x"),
    "gemini": ("mcp", "add", "--scope", "user", "theirs", "/bin/true", "x"),
    "qwen": ("mcp", "add", "--scope", "user", "theirs", "/bin/true", "x"),
    "codex": ("mcp", "add", "theirs", "--", "/bin/true", "x"),
}


@pytest.mark.parametrize("client", [*ADD])
def test_our_entry_stands_beside_one_that_the_client_wrote_itself(shell, yard, client):
    """In the same file, under the same key: the file is the one that the client's own command writes."""
    shell(client, *ADD[client])
    path = yard.home / toolyard(shell, yard, "install", client, "--dry-run")["path"]
    before = path.read_bytes()
    assert toolyard(shell, yard, "install", client)["backup"] == f"{path}.toolyard-backup"
    text = path.read_text()
    document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    section = "mcp_servers" if client == "codex" else "mcpServers"
    ours, theirs = (document[section][name] for name in ("toolyard", "theirs"))
    assert ours.keys() <= {*theirs, "type"}
    toolyard(shell, yard, "uninstall", client)
    assert path.read_bytes() == before


def test_codex_starts_the_server(shell, yard):
    """Its list does not; the server that its app server starts tells of its tools."""
    toolyard(shell, yard, "install", "codex")
    with subprocess.Popen(
        ["codex", "app-server"],
        env=shell.environment,
        cwd=yard.workspace,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            answer(server, 1, "initialize", {"clientInfo": {"name": "t", "version": "1"}})
            listed = answer(server, 2, "mcpServerStatus/list", {})
        finally:
            server.kill()
    (ours,) = [each for each in listed["data"] if each["name"] == "toolyard"]
    assert {"Read", "Write", "Bash"} <= {*ours["tools"]}


def answer(server, number, method, params):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        said = json.loads(line)
        if said.get("id") == number:
            return said["result"]
    raise AssertionError("codex ended without an answer")


def test_doctor_knows_every_cli_and_what_each_one_lacks(shell, yard):
    for client in SEEN:
        toolyard(shell, yard, "install", client)
    checks = json.loads(shell(yard.command()[0], "doctor", "--json", "--state", str(yard.state)))["checks"]
    found = {check["what"]: check["found"] for check in checks}
    for client in SEEN:
        said = found[f"client: {client}"]
        may = driver_of(client).works_without_key
        would = "a run would attach" if may else "a run would not attach: it has no key and no login"
        assert re.match(rf"\d+\.\d+\.\d+ \(.*\); {would}", said), said
        assert "in its own settings: toolyard (/" in said
