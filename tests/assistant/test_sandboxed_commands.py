"""Programs of our own run on the workspace behind walls: they read it, and change, reach and learn nothing else."""

import threading
import time

import pytest

from toolyard.assistant.sandboxed_commands import ProgramResult, run_program
from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.call_context import CallContext, MustRunInThread
from toolyard.sandbox.spec import Mount

LONGEST_WAIT = 30.0


def shell(gate, line, **options):
    return run_program(gate, ("/bin/sh", "-c", line), **options)


def test_what_a_program_prints_and_how_it_ends_is_told(gate):
    assert shell(gate, "echo out; echo err >&2; exit 3") == ProgramResult(3, b"out\n", b"err\n", is_complete=True)


def test_words_reach_the_program_as_they_are(gate):
    words = ("a b", "$HOME", "`id`", "'", '"', "a\nb", "*", "-n", "", "\udcff")
    ran = run_program(gate, ("/usr/bin/printf", "%s\\0", *words))
    assert ran.out == b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


def test_a_program_starts_in_the_folder_that_is_named(gate, workspace):
    (workspace / "a b").mkdir()
    for folder in ("a b", str(workspace / "a b")):
        assert run_program(gate, ("/bin/pwd",), folder=folder).out == f"{workspace}/a b\n".encode()
    assert run_program(gate, ("/bin/pwd",)).out == f"{workspace}\n".encode()


def test_a_folder_outside_the_workspace_is_refused(gate, tmp_path):
    for folder in ("..", str(tmp_path), "/etc"):
        with pytest.raises(SecurityError, match="outside the workspace"):
            run_program(gate, ("/bin/pwd",), folder=folder)


@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.STRICT, PermissionMode.MODERATE])
def test_nothing_can_be_written_whatever_the_mode(open_gate, workspace, mode):
    (workspace / "a").write_text("a")
    gate = open_gate(mode=mode)
    ran = shell(gate, "echo x >a; touch b; rm -f a; mkdir c; ls")
    assert (ran.out, (workspace / "a").read_text()) == (b"a\n", "a")


def test_nothing_outside_is_read_but_what_is_given_for_this_run(gate, tmp_path):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "a").write_text("beside")
    mount = Mount(str(tmp_path / "beside"), writable=True)
    assert shell(gate, f"cat {tmp_path}/beside/a").exit_code != 0
    assert shell(gate, f"cat {tmp_path}/beside/a", extra_mounts=(mount,)).out == b"beside"
    assert shell(gate, f"touch {tmp_path}/beside/b", extra_mounts=(mount,)).exit_code != 0
    assert shell(gate, f"cat {tmp_path}/beside/a").exit_code != 0


def test_many_different_views_are_not_all_kept(gate, tmp_path):
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a").write_text(str(number))
        assert shell(gate, f"cat {folder}/a", extra_mounts=(Mount(str(folder)),)).out == str(number).encode()
    assert len(gate.sandboxes._sandboxes) == 8


def test_what_a_rule_hides_is_hidden_from_programs_too(open_gate, workspace):
    (workspace / ".env").write_text("secret")
    gate = open_gate(permissions={"deny": ["Read(.env)"]})
    assert b"secret" not in shell(gate, "cat .env").out


def test_neither_the_users_variables_nor_allowed_hosts_are_for_programs(open_gate, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "mine")
    gate = open_gate(toolyard={"code_execution": {"env": {"TOKEN": "mine"}, "allowed_hosts": ["example.org"]}})
    ran = run_program(gate, ("/usr/bin/env",))
    assert b"mine" not in ran.out
    assert b"proxy" not in ran.out.lower()
    assert b"LC_ALL=C\n" in ran.out


def test_variables_of_our_own_are_given(gate):
    assert shell(gate, 'echo "$A"', variables={"A": "x y"}).out == b"x y\n"


def test_a_program_that_takes_too_long_or_prints_too_much_is_ended_and_that_is_told(gate):
    assert not shell(gate, "echo begun; sleep 60", seconds=1.0).is_complete
    ran = shell(gate, "yes", output_bytes=10_000)
    assert (ran.is_complete, len(ran.out)) == (False, 10_000)


def test_a_program_ends_with_the_call_that_runs_it(gate):
    threading.Timer(0.2, gate.budget.cancelled.set).start()
    begun = time.monotonic()
    with pytest.raises(ToolError, match="stopped"):
        shell(gate, "sleep 60", seconds=50.0)
    assert time.monotonic() - begun < LONGEST_WAIT


def test_a_program_has_no_more_time_than_its_call(gate):
    gate.budget.deadline = time.monotonic() + 0.5
    with pytest.raises(ToolError, match="took longer"):
        shell(gate, "sleep 60", seconds=50.0)


def test_a_sandbox_that_is_lost_is_replaced(gate):
    assert shell(gate, "echo 1").out == b"1\n"
    gate.sandboxes.get_read_only_sandbox().sandbox._process.kill()
    assert shell(gate, "echo 2").out == b"2\n"


def test_without_walls_nothing_runs(open_gate, workspace):
    gate = open_gate(toolyard={"code_execution": {"mode": "none"}})
    with pytest.raises(SecurityError, match="needs a sandbox"):
        shell(gate, f"touch {workspace}/made")
    assert not (workspace / "made").exists()


def test_switching_off_the_callers_commands_leaves_our_own_programs(open_gate):
    assert shell(open_gate(toolyard={"code_execution": {"enabled": False}}), "echo here").out == b"here\n"


def test_the_audit_log_is_told_of_it_once(gate):
    for _ in range(2):
        run_program(gate, ("true",))
    assert gate.notes.for_audit == ["Ran true in a read-only sandbox."]


def test_no_program_runs_where_everybody_else_would_wait_for_it(gate):
    hasty = CallContext(gate.services, Call("Probe", {}, "test"), may_block=False)
    with pytest.raises(MustRunInThread):
        run_program(hasty, ("true",))
