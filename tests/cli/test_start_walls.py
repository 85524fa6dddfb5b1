"""`run`, `run --check`, `mcp` and `drive` see before they start that the configured sandbox can be had."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from tests.cli.conftest import ran_with
from toolyard.sandbox import probe
from toolyard.sandbox.probe import TierReport
from toolyard.sandbox.spec import Tier

SECONDS = 120
BOTH_MODES = pytest.mark.parametrize("execution", ["context_based", "filesystem_first"])
NO_NAMESPACES = "No namespaces are allowed here."
SWITCHED_OFF = "code_execution: {enabled: false}"
UNREACHABLE = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
CONFIG = """
agents:
  - id: one
    backend: {type: openai, model: gpt-5, base_url: "http://127.0.0.1:9/v1", cwd: work}
toolyard:
  execution_mode: EXECUTION
  code_execution: {mode: docker, enabled: ENABLED}
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture
def place(tmp_path):
    """A workspace, and a docker client whose engine does not run."""
    (tmp_path / "programs").mkdir()
    docker = tmp_path / "programs" / "docker"
    docker.write_text(f'#!/bin/sh\necho "{UNREACHABLE}" >&2\nexit 1\n')
    docker.chmod(0o755)
    (tmp_path / "ws").mkdir()
    return tmp_path


def configuration(execution="context_based", enabled="true"):
    return CONFIG.replace("EXECUTION", execution).replace("ENABLED", enabled)


def toolyard(place, *arguments, execution="filesystem_first", enabled="true", given=""):
    config = place / "config.yaml"
    config.write_text(configuration(execution, enabled))
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
    assert UNREACHABLE in done.stderr
    assert f"{UNREACHABLE}." not in done.stderr
    assert_names_the_ways_out(done.stderr)


def assert_names_the_ways_out(text):
    assert "start it" in text
    assert "{mode: bubblewrap}" in text
    assert "execution_mode: context_based" in text
    assert SWITCHED_OFF in text


@BOTH_MODES
@pytest.mark.timeout(SECONDS)
def test_a_run_is_refused_and_names_the_ways_out(place, execution):
    done = toolyard(place, "run", "Say hello.", execution=execution)
    assert_refused(done)
    assert done.stdout == ""


@BOTH_MODES
@pytest.mark.timeout(SECONDS)
def test_the_check_says_that_it_is_not_ready(place, execution):
    done = toolyard(place, "run", "--check", "--json", execution=execution)
    assert done.returncode != 0
    report = json.loads(done.stdout)
    assert not report["ready"]
    (problem,) = report["problems"]
    assert UNREACHABLE in problem["text"]
    assert_names_the_ways_out(problem["hint"])
    assert "Not ready" in toolyard(place, "run", "--check", execution=execution).stdout


@BOTH_MODES
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("tools", ["claude", "code", "all"])
def test_a_server_with_tools_that_run_code_does_not_start(place, tools, execution):
    done = toolyard(place, "mcp", "--agent", "one", "--tools", tools, execution=execution)
    assert_refused(done)
    assert done.stdout == ""


@pytest.mark.timeout(SECONDS)
def test_a_server_without_such_tools_starts(place):
    done = toolyard(place, "mcp", "--agent", "one", "--tools", "reference", given=json.dumps(HELLO) + "\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1


@BOTH_MODES
@pytest.mark.timeout(SECONDS)
def test_a_cli_is_not_started(place, execution):
    claude = place / "programs" / "claude"
    claude.write_text(f"#!/bin/sh\ntouch {place}/started\n")
    claude.chmod(0o755)
    assert_refused(toolyard(place, "drive", "--agent", "one", "claude", "Say hello.", execution=execution))
    assert not (place / "started").exists()


@pytest.mark.timeout(SECONDS)
def test_the_way_out_without_commands_is_ready_and_refuses_commands_plainly(place):
    ready = toolyard(place, "run", "--check", execution="context_based", enabled="false")
    assert ready.returncode == 0
    assert "Ready to run" in ready.stdout
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "Bash", "arguments": {"command": "id"}},
    }
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = "".join(json.dumps(message) + "\n" for message in (HELLO, begun, call))
    done = toolyard(place, "mcp", "--agent", "one", execution="context_based", enabled="false", given=lines)
    assert done.returncode == 0, done.stderr
    assert "Commands and code are switched off for this workspace." in done.stdout


@pytest.fixture
def weak_machine(monkeypatch):
    """No sandbox but Landlock can be built, as it seems. Says which kinds were tried."""
    tried = []

    def stands(tier, means):
        tried.append(tier)
        return TierReport(tier, is_available=tier is Tier.LANDLOCK, reason=NO_NAMESPACES, hint="Allow namespaces.")

    monkeypatch.setattr(probe, "probe_tier", stands)
    monkeypatch.setattr("toolyard.app.sandbox_preflight._can_make_namespaces", lambda: False)
    return tried


def with_sandbox(place, command, *words, code_execution, code=1):
    config = place / "config.yaml"
    document = yaml.safe_load(configuration())
    document["toolyard"] = {"code_execution": code_execution}
    config.write_text(yaml.safe_dump(document))
    named = (str(config),) if command == "run" else ("--config", str(config), "--agent", "one")
    return ran_with([command, *named, "--state", f"{place}/state", *words], code=code)


ASKED_BY_NAME = pytest.mark.parametrize("code_execution", [{"mode": "bubblewrap"}, {"minimum": "namespaces"}])


@ASKED_BY_NAME
@pytest.mark.parametrize("command", [("run", "Say hello."), ("mcp",), ("drive", "claude", "Say hello.")])
def test_a_sandbox_that_is_asked_for_by_name_is_not_done_without(
    place, monkeypatch, weak_machine, command, code_execution
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    said = with_sandbox(place, *command, code_execution=code_execution, code=2 if command[0] == "run" else 1)
    assert NO_NAMESPACES.rstrip(".") in said
    assert "execution_mode: context_based" in said
    assert SWITCHED_OFF in said


@ASKED_BY_NAME
def test_the_check_asks_for_the_named_sandbox_as_well(place, monkeypatch, weak_machine, code_execution):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    said = with_sandbox(place, "run", "--check", code_execution=code_execution)
    assert "Not ready: 1 problem stops the run." in said


def test_a_run_that_names_no_sandbox_is_ready_and_says_whose_commands_are_refused(place, monkeypatch, weak_machine):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    said = with_sandbox(place, "run", "--check", code_execution={}, code=0)
    assert "Ready, but commands and code of one will be refused." in said
    assert Tier.NAMESPACES in weak_machine


@pytest.mark.parametrize("command", [("mcp",), ("drive", "claude", "Say hello.")])
def test_a_server_and_a_cli_need_the_usual_sandbox_without_a_configuration_too(place, weak_machine, command):
    folders = ("--workspace", f"{place}/ws", "--state", f"{place}/state")
    said = ran_with([*command, *folders], code=1)
    assert NO_NAMESPACES.rstrip(".") in said
    assert SWITCHED_OFF in said


def test_a_server_that_may_use_nothing_but_bubblewrap_sees_that_it_starts(place, monkeypatch):
    monkeypatch.setattr(
        probe,
        "probe_tier",
        lambda tier, means: TierReport(tier, is_available=tier is not Tier.BUBBLEWRAP, reason="It is broken."),
    )
    said = with_sandbox(place, "mcp", code_execution={"minimum": "bubblewrap"})
    assert "bubblewrap: It is broken" in said


@pytest.mark.timeout(SECONDS)
def test_an_agent_without_tools_that_run_commands_needs_no_sandbox(place, monkeypatch, weak_machine):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    config = place / "config.yaml"
    document = yaml.safe_load(configuration())
    document["agents"][0]["backend"]["allowed_tools"] = ["Read"]
    config.write_text(yaml.safe_dump(document))
    words = ["run", str(config), "--check", "--state", f"{place}/state"]
    assert "Ready to run" in ran_with(words, code=0)
    assert weak_machine == []
