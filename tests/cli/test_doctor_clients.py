"""What doctor says of the clients, with programs that stand for them."""

from __future__ import annotations

import os
import time

import pytest

from toolyard.cli.doctor import clients as doctor_clients
from toolyard.cli.doctor.clients import ask_versions
from toolyard.config.clients.clients import CLIENTS
from toolyard.config.clients.installer import InstallTarget, install
from toolyard.config.settings import Settings
from toolyard.drivers.registry import DRIVERS


class Desk:
    """A home and a PATH of their own."""

    def __init__(self, base):
        self.home, self.bin, self.project = (base / name for name in ("home", "bin", "project"))
        for folder in (self.home, self.bin, self.project):
            folder.mkdir()
        self.settings = Settings.from_environment({"HOME": str(self.home)})

    def program(self, name, script):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def checks(self):
        with ask_versions(self.settings) as clients:
            found = [*clients.checks(str(self.project))]
        return {check.what.removeprefix("client: "): (check.status.value, check.found, check.fix) for check in found}

    def install(self, client, scope="user", *, name="toolyard", serves="mcp"):
        program = self.program("toolyard", "")
        target = InstallTarget(CLIENTS[client], scope, self.settings, str(self.project), name)
        return install(target, (program, serves)).path


@pytest.fixture
def desk(tmp_path, monkeypatch):
    made = Desk(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    for driver in DRIVERS.values():
        for name in (*driver.keys, *(login.variable for login in driver.logins if login.variable)):
            monkeypatch.delenv(name, raising=False)
    return made


def test_a_client_that_is_missing_comes_with_its_install_line(desk):
    checks = desk.checks()
    assert [*checks] == ["claude", "codex", "gemini", "qwen", "opencode", "cursor", "vscode"]
    assert checks["gemini"] == (
        "info",
        "not installed; not in its own settings",
        "`npm install -g @google/gemini-cli`",
    )


def test_with_a_version_and_a_key_a_run_would_attach(desk, monkeypatch):
    path = desk.program("gemini", "echo 9.61.0")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    fix = "`toolyard install gemini` adds it there."
    found = f"9.61.0 ({path}); a run would attach; not in its own settings"
    assert desk.checks()["gemini"] == ("ok", found, fix)
    settings = desk.install("gemini")
    found = f"9.61.0 ({path}); a run would attach; in its own settings: toolyard ({settings})"
    assert desk.checks()["gemini"] == ("ok", found, "")


def test_a_login_does_as_well_as_a_key(desk, monkeypatch):
    desk.program("codex", "echo codex-cli 9.0.0")
    status, found, fix = desk.checks()["codex"]
    assert status == "warn"
    assert "a run would not attach: it has no key and no login" in found
    assert fix == "Set OPENAI_API_KEY, or log in with `codex`."
    (desk.home / ".codex").mkdir()
    (desk.home / ".codex" / "auth.json").write_text("{}")
    assert "a run would attach" in desk.checks()["codex"][1]
    monkeypatch.setenv("CODEX_HOME", str(desk.project))
    assert "no login" in desk.checks()["codex"][1]


@pytest.mark.parametrize("script", ["echo no; exit 0", "echo 9.9.9; exit 1", "exit 0"])
def test_a_program_that_does_not_say_its_version_is_told(desk, script):
    desk.program("claude", script)
    status, found, fix = desk.checks()["claude"]
    assert status == "warn"
    assert "does not print its version; it is unknown whether a run would attach" in found
    assert fix == "Try `claude --version`. If it fails: `npm install -g @anthropic-ai/claude-code`"


def test_an_old_version_is_told(desk, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    desk.program("claude", "echo 1.0.0")
    assert "would not attach: it is older than" in desk.checks()["claude"][1]


def test_programs_that_hang_are_asked_at_once_and_ended_with_what_they_started(desk, monkeypatch):
    monkeypatch.setattr(doctor_clients, "_ANSWER_SECONDS", 1)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    for driver in DRIVERS.values():
        desk.program(driver.program, f"sleep 300 & echo $! > {desk.home}/{driver.program}.pid; wait")
    began = time.monotonic()
    checks = desk.checks()
    assert time.monotonic() - began < len(DRIVERS)  # one after the other takes a second each
    assert {checks[name][0] for name in DRIVERS} == {"warn"}
    for driver in DRIVERS.values():
        pid = int((desk.home / f"{driver.program}.pid").read_text())
        assert not is_running(pid)


def test_who_does_not_answer_in_time_is_not_said_to_be_unable_to_attach(desk, monkeypatch):
    monkeypatch.setattr(doctor_clients, "_ANSWER_SECONDS", 1)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    path = desk.program("gemini", "exec sleep 300")
    status, found, fix = desk.checks()["gemini"]
    assert status == "warn"
    assert found.startswith(f"{path} did not print its version within 1 s; it is unknown whether a run would attach")
    assert "a busy machine takes longer" in fix


def test_a_busy_machine_is_given_more_time_within_bounds(desk, monkeypatch):
    monkeypatch.setattr(doctor_clients, "_ANSWER_SECONDS", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    desk.program("gemini", "sleep 2; echo 9.61.0")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    assert "a run would attach" in desk.checks()["gemini"][1]
    assert doctor_clients._answer_timeout() == 4
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 0.0, 0.0))
    assert doctor_clients._answer_timeout() == 3


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_entry_whose_program_is_gone_is_told_with_the_way_to_mend_it(desk):
    path = desk.install("cursor", "project")
    assert desk.checks()["cursor"] == ("ok", f"in its own settings: toolyard ({path})", "")
    os.unlink(desk.bin / "toolyard")
    status, found, fix = desk.checks()["cursor"]
    assert (status, fix) == ("warn", "`toolyard install cursor --scope project --name toolyard`")
    assert found == f'"toolyard" in {path} starts {desk.bin}/toolyard, which does not exist'


@pytest.mark.parametrize("client", ["cursor", "opencode"])  # which spell commands differently
def test_the_assistant_and_the_tools_are_told_apart(desk, client):
    desk.install(client, name="toolyard-assistant", serves="assistant")
    path = desk.install(client)
    assert f"in its own settings: toolyard-assistant ({path}), toolyard ({path})" in desk.checks()[client][1]
    os.unlink(desk.bin / "toolyard")
    fix = f"`toolyard install {client} --assistant --scope user --name toolyard-assistant`"
    assert doctor_clients._ClientEntries.of(CLIENTS[client], desk.settings, str(desk.project)).fix == fix


def test_a_file_that_cannot_be_read_is_told(desk):
    (desk.home / ".cursor").mkdir()
    (desk.home / ".cursor" / "mcp.json").write_text("{")
    status, found, _ = desk.checks()["cursor"]
    assert status == "warn"
    assert "mcp.json:1: is not valid JSON" in found


def test_no_loopback_is_told(desk, monkeypatch):
    monkeypatch.setattr(doctor_clients, "_loopback_error", lambda: "Network is down")
    desk.program("gemini", "echo 9.61.0")
    assert "our server cannot listen on the loopback (Network is down)" in desk.checks()["gemini"][1]


def test_no_group_is_signalled_by_a_number_that_is_no_longer_its_own(desk, monkeypatch):
    """Once a child is reaped, its number may be another's."""
    late = []
    kill = os.killpg

    def watched(group, number):
        if not os.path.exists(f"/proc/{group}"):
            late.append(group)
        kill(group, number)

    monkeypatch.setattr(os, "killpg", watched)
    assert doctor_clients._ask_version(desk.program("quick", "echo 1.2.3")).version == "1.2.3"
    assert doctor_clients._ask_version(desk.program("forking", "sleep 60 & echo 1.2.4")).version == "1.2.4"
    assert late == []
