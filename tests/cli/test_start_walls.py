"""`run`, `run --check`, `mcp` and `drive` see before they start that the configured sandbox can be had."""

import json
import os
import subprocess
import sys

import pytest

SECONDS = 120
UNREACHABLE = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
CONFIG = """
agents:
  - id: one
    backend: {type: openai, model: gpt-5, base_url: "http://127.0.0.1:9/v1", cwd: work}
toolyard:
  execution_mode: EXECUTION
  code_execution: {mode: docker}
"""


@pytest.fixture
def place(tmp_path):
    """A workspace, and a docker client whose engine does not run."""
    (tmp_path / "programs").mkdir()
    docker = tmp_path / "programs" / "docker"
    docker.write_text(f'#!/bin/sh\necho "{UNREACHABLE}" >&2\nexit 1\n')
    docker.chmod(0o755)
    (tmp_path / "ws").mkdir()
    return tmp_path


def toolyard(place, *arguments, execution="filesystem_first", given=""):
    config = place / "config.yaml"
    config.write_text(CONFIG.replace("EXECUTION", execution))
    variables = {
        "PATH": f"{place}/programs:{os.environ['PATH']}",
        "HOME": str(place),
        "OPENAI_API_KEY": "none",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    command, *rest = arguments
    named = (str(config),) if command == "run" else ("--config", str(config))
    return subprocess.run(
        (sys.executable, "-m", "toolyard", command, *named, "--state", f"{place}/state", *rest),
        capture_output=True,
        text=True,
        input=given,
        timeout=SECONDS,
        cwd=place / "ws",
        env=variables,
        check=False,
    )


def assert_refused(done):
    assert done.returncode != 0
    assert "docker" in done.stderr
    assert UNREACHABLE in done.stderr
    assert "{mode: bubblewrap}" in done.stderr


@pytest.mark.timeout(SECONDS)
def test_a_run_is_refused_and_names_the_way_out(place):
    done = toolyard(place, "run", "Say hello.")
    assert_refused(done)
    assert "context_based" in done.stderr


@pytest.mark.timeout(SECONDS)
def test_the_check_says_that_it_is_not_ready(place):
    done = toolyard(place, "run", "--check", "--json")
    assert done.returncode != 0
    problems = json.loads(done.stdout)["problems"]
    assert any(UNREACHABLE in problem["text"] for problem in problems)
    assert any("context_based" in problem["hint"] for problem in problems)
    without_code = toolyard(place, "run", "--check", execution="context_based")
    assert "Ready" in without_code.stdout
    assert UNREACHABLE in without_code.stdout


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("tools", ["claude", "code", "all"])
def test_a_server_with_tools_that_run_code_does_not_start(place, tools):
    done = toolyard(place, "mcp", "--agent", "one", "--tools", tools)
    assert_refused(done)
    assert done.stdout == ""


@pytest.mark.timeout(SECONDS)
def test_a_server_without_such_tools_starts(place):
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    done = toolyard(place, "mcp", "--agent", "one", "--tools", "reference", given=json.dumps(hello) + "\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1


@pytest.mark.timeout(SECONDS)
def test_a_cli_is_not_started(place):
    claude = place / "programs" / "claude"
    claude.write_text(f"#!/bin/sh\ntouch {place}/started\n")
    claude.chmod(0o755)
    assert_refused(toolyard(place, "drive", "--agent", "one", "claude", "Say hello."))
    assert not (place / "started").exists()
