"""The context of a call decides on the path as spelled and on where it really lies, before anything is touched."""

import os
import time

import pytest

from tests.support.descriptors import count_open
from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.call_context import ApprovalRequired

ASKING = PermissionMode.DEFAULT


def action(kind, path, real=None):
    return Action(kind, "Probe", path, real or path)


@pytest.fixture
def outside(bench):
    return os.path.join(os.path.dirname(bench.workspace), "outside.txt")


def test_what_is_allowed_comes_as_an_open_target(bench):
    gate = bench.gate()

    with gate.open("a.txt", Kind.READ) as target:
        assert target.real == f"{bench.workspace}/a.txt"

    assert [(judged, decision.effect) for judged, decision in gate.permissions.decisions] == [
        (action(Kind.READ, f"{bench.workspace}/a.txt"), Effect.ALLOW)
    ]


def test_a_path_outside_is_refused_before_it_is_looked_at(bench, monkeypatch):
    gate = bench.gate()
    monkeypatch.setattr(bench.mounts, "find", lambda path: pytest.fail("looked"))

    for path in ("/etc/passwd", "../outside.txt", "/no/such/place"):
        with pytest.raises(SecurityError, match="outside"):
            gate.open(path, Kind.READ)


def test_a_wrong_path_names_the_argument_it_came_in(bench):
    with pytest.raises(ValidationError) as caught:
        bench.gate().open("", Kind.READ, argument="file_path")

    assert caught.value.fields[0].field == "file_path"


def test_a_link_is_judged_by_both_its_ends_and_closed_when_refused(bench):
    hooks = os.path.join(bench.workspace, ".git", "hooks")
    os.makedirs(hooks)
    os.symlink(hooks, os.path.join(bench.workspace, "link"))
    gate = bench.gate()
    before = count_open()

    with pytest.raises(SecurityError, match="which leads to"):
        gate.open("link/pre-commit", Kind.WRITE)

    assert count_open() == before
    path, real = f"{bench.workspace}/link/pre-commit", f"{hooks}/pre-commit"
    assert [judged for judged, _ in gate.permissions.decisions] == [
        action(Kind.WRITE, path),
        action(Kind.WRITE, path, real),
    ]
    assert gate.permissions.strictest_decision() == gate.permissions.decisions[1]


def test_a_question_carries_what_would_be_done(bench):
    with pytest.raises(ApprovalRequired) as caught:
        bench.gate(ASKING).open("a.txt", Kind.WRITE)

    assert caught.value.action == action(Kind.WRITE, f"{bench.workspace}/a.txt")
    assert caught.value.decision.effect is Effect.ASK


def test_an_approved_action_passes_and_another_still_asks(bench):
    approved = action(Kind.WRITE, f"{bench.workspace}/a.txt")
    gate = bench.gate(ASKING, approved_actions=frozenset({approved}))

    gate.open("a.txt", Kind.WRITE).handle.close()
    with pytest.raises(ApprovalRequired):
        gate.open("b.txt", Kind.WRITE)


def test_who_may_write_may_look_but_not_the_other_way_round(bench, outside):
    write, read = action(Kind.WRITE, outside), action(Kind.READ, outside)

    bench.gate(ASKING, approved_actions=frozenset({write})).open(outside, Kind.READ).handle.close()
    with pytest.raises(ApprovalRequired):
        bench.gate(ASKING, approved_actions=frozenset({read})).open(outside, Kind.WRITE)


def test_an_approval_does_not_cover_where_a_link_was_turned_to_since(bench, outside):
    link = os.path.join(bench.workspace, "link")
    os.symlink("a.txt", link)
    approved = frozenset({action(Kind.WRITE, link), action(Kind.WRITE, link, f"{bench.workspace}/a.txt")})
    bench.gate(ASKING, approved_actions=approved).open("link", Kind.WRITE).handle.close()

    os.unlink(link)
    os.symlink("b.txt", link)
    with open(os.path.join(bench.workspace, "b.txt"), "w", encoding="utf-8"):
        pass

    with pytest.raises(ApprovalRequired):
        bench.gate(ASKING, approved_actions=approved).open("link", Kind.WRITE)


def test_commands_are_judged_as_commands(bench):
    gate = bench.gate(PermissionMode.PLAN)

    with pytest.raises(SecurityError):
        gate.check_command("rm -rf /")

    (judged, decision) = gate.permissions.strictest_decision()
    assert (judged, decision.effect) == (Action(Kind.EXECUTE, "Probe", command="rm -rf /"), Effect.DENY)


def test_what_is_met_on_the_way_is_shown_only_when_it_may_be_read_unasked(bench, outside):
    folder = os.path.dirname(outside)

    assert bench.gate(ASKING).permissions.is_visible(f"{bench.workspace}/a.txt")
    assert not bench.gate(ASKING).permissions.is_visible(outside)
    assert not bench.gate(PermissionMode.STRICT).permissions.is_visible(outside)
    approved = frozenset({action(Kind.READ, folder)})
    assert bench.gate(ASKING, approved_actions=approved).permissions.is_visible(outside)
    assert not bench.gate(PermissionMode.STRICT, approved_actions=approved).permissions.is_visible(outside)


def test_a_call_without_any_action_has_no_verdict(bench):
    assert bench.gate().permissions.strictest_decision() is None


def test_long_work_stops_when_it_is_cancelled_or_overdue(bench):
    fine, cancelled, late = bench.gate(), bench.gate(), bench.gate(deadline=time.monotonic() - 1)
    cancelled.budget.cancelled.set()

    fine.check_time()
    with pytest.raises(ToolError, match="stopped before it finished"):
        cancelled.check_time()
    with pytest.raises(ToolError, match="took longer than 60 seconds"):
        late.check_time()
