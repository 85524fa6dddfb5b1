"""The strength of the walls over the life of a workspace: weaker for a moment, never for good."""

import pytest

from toolyard.core.errors import SecurityError
from toolyard.sandbox import manager, probe
from toolyard.sandbox.backends import landlock
from toolyard.sandbox.backends.bubblewrap import find_bubblewrap
from toolyard.sandbox.probe import SandboxPrograms

pytestmark = [
    pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap"),
    pytest.mark.skipif(bool(landlock.unsupported_reason()), reason=landlock.unsupported_reason()),
]


@pytest.fixture
def shortage(tmp_path, monkeypatch):
    """While this file is there, bubblewrap finds no namespaces, and there is no `unshare`."""
    flag, program = tmp_path / "shortage", tmp_path / "bwrap"
    program.write_text(
        f"#!/bin/sh\nif [ -e {flag} ]; then\n"
        'echo "bwrap: Creating new namespace failed: No space left on device" >&2; exit 1\nfi\n'
        f'exec {find_bubblewrap()} "$@"\n'
    )
    program.chmod(0o755)
    flag.touch()
    monkeypatch.setattr(
        SandboxPrograms, "find_programs", classmethod(lambda _, *__, **___: SandboxPrograms(bubblewrap=str(program)))
    )
    monkeypatch.setattr(manager, "RETRY_STRONGER_SECONDS", 0.0)
    probe.clear_cache()
    yield flag
    probe.clear_cache()


async def ran_in(bench, **arguments):
    result = await bench.call("Bash", command="true", **arguments)
    return result.structured["sandbox"], result.text


async def test_a_shortage_during_the_first_call_leaves_no_later_call_in_the_weak_sandbox(open_bench, shortage):
    bench = open_bench(toolyard={"code_execution": {"minimum": "landlock"}})
    tier, text = await ran_in(bench)
    assert tier == "landlock"
    assert "Weak sandbox" in text
    shortage.unlink()
    tier, text = await ran_in(bench)
    assert tier == "bubblewrap"
    assert "The sandbox was replaced, because a stronger one is available again" in text
    assert await ran_in(bench) == ("bubblewrap", "(no output)")


async def test_below_the_minimum_a_call_is_refused_and_the_next_one_runs_when_the_shortage_is_over(
    open_bench, shortage
):
    bench = open_bench()
    refused = await bench.fails(SecurityError, "Bash", command="true")
    assert "No sandbox as strong as `code_execution.minimum` (namespaces)" in refused.message
    assert "No space left on device" in refused.message
    assert refused.retryable
    shortage.unlink()
    assert await ran_in(bench) == ("bubblewrap", "(no output)")


async def test_background_commands_are_not_ended_for_a_stronger_sandbox(open_bench, shortage):
    bench = open_bench(toolyard={"code_execution": {"minimum": "landlock"}})
    started = await bench.call("Bash", command="sleep 60", run_in_background=True)
    shortage.unlink()
    assert (await ran_in(bench))[0] == "landlock"
    await bench.call("KillShell", shell_id=started.structured["shell_id"])
