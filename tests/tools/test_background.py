"""Commands in the background: BashOutput and KillShell."""

import asyncio
import os
import time

import pytest

from toolyard.core.errors import ToolError, ValidationError

LONGEST_WAIT = 20.0
CATASTROPHE = "(a+)+$"


async def started(bench, command, **options):
    result = await bench.call("Bash", command=command, run_in_background=True, **options)
    shell = bench.yard.sandboxes.background_commands.get(result.structured["shell_id"])
    return result, shell


async def ended(shell):
    assert await asyncio.to_thread(shell.ended.wait, LONGEST_WAIT)


async def printed(bench, shell, wanted):
    """What BashOutput gives until the text was seen, one answer after the other."""
    until = time.monotonic() + LONGEST_WAIT
    seen = []
    while wanted not in "".join(seen):
        assert time.monotonic() < until, seen
        seen.append((await bench.call("BashOutput", bash_id=shell.id)).structured["stdout"])
        await asyncio.sleep(0.01)
    return "".join(seen)


async def test_a_background_command_is_answered_with_its_id_at_once(bench):
    result, shell = await started(bench, "sleep 60")
    assert result.structured == {"shell_id": "bash_1", "sandbox": "bubblewrap"}
    assert result.text == (
        "Running in the background as bash_1. A later result says when it has ended. "
        "Read its output with BashOutput, end it with KillShell."
    )
    assert not shell.ended.is_set()


async def test_output_is_handed_out_once_and_the_end_is_told(bench):
    os.mkfifo(f"{bench.path}/go")
    _, shell = await started(bench, "echo one; cat go; echo err >&2; exit 3")
    assert await printed(bench, shell, "one\n") == "one\n"
    nothing = await bench.call("BashOutput", bash_id=shell.id)
    assert (nothing.text, nothing.structured) == (
        "[bash_1 is running]",
        {"stdout": "", "stderr": "", "running": True},
    )
    with await asyncio.to_thread(open, f"{bench.path}/go", "w") as go:
        go.write("two\n")
    await ended(shell)
    last = await bench.call("BashOutput", bash_id=shell.id)
    assert last.structured == {"stdout": "two\n", "stderr": "err\n", "running": False, "exit_code": 3}
    assert last.text == "two\nerr\n[bash_1 ended with exit code 3]"


async def test_a_background_command_outlives_the_next_foreground_one(bench):
    _, shell = await started(bench, "sleep 60")
    await bench.call("Bash", command="true")
    assert not shell.ended.is_set()


async def test_a_filter_shows_only_the_lines_that_match(bench):
    _, shell = await started(bench, "printf 'an error\\nall well\\n'; echo 'error 2' >&2")
    await ended(shell)
    found = await bench.call("BashOutput", bash_id=shell.id, filter="err.r")
    assert (found.structured["stdout"], found.structured["stderr"]) == ("an error\n", "error 2\n")


@pytest.mark.parametrize("pattern", ["(", CATASTROPHE, "a{99999999999999}", "'''"])
async def test_a_filter_that_cannot_work_is_bounded_and_loses_no_output(bench, pattern):
    line = "a" * 40 + "b"
    _, shell = await started(bench, f"echo {line}")
    await ended(shell)
    begun = time.monotonic()
    if pattern == "'''":
        assert (await bench.call("BashOutput", bash_id=shell.id, filter=pattern)).structured["stdout"] == ""
        return
    error = await bench.fails(ValidationError, "BashOutput", bash_id=shell.id, filter=pattern)
    assert "is not a regular expression, or takes too long" in error.message
    assert time.monotonic() - begun < LONGEST_WAIT
    assert (await bench.call("BashOutput", bash_id=shell.id)).structured["stdout"] == f"{line}\n"


async def test_killing_ends_it_with_all_its_processes(bench):
    _, shell = await started(bench, "sleep 61 & echo up; sleep 60")
    await printed(bench, shell, "up\n")
    killed = await bench.call("KillShell", shell_id=shell.id)
    assert (killed.text, killed.structured) == ("bash_1 was killed.", {"shell_id": "bash_1", "killed": True})
    assert (await bench.call("BashOutput", bash_id=shell.id)).text == "[bash_1 was killed]"
    assert (await bench.call("Bash", command="pgrep sleep")).structured["stdout"] == ""
    again = await bench.call("KillShell", shell_id=shell.id)
    assert (again.text, again.structured["killed"]) == ("bash_1 had ended already.", False)


@pytest.mark.parametrize(("tool", "argument"), [("BashOutput", "bash_id"), ("KillShell", "shell_id")])
async def test_an_unknown_id_is_answered_with_the_known_ones(bench, tool, argument):
    error = await bench.fails(ToolError, tool, **{argument: "bash_9"})
    assert error.hint == "No background command was started."
    await started(bench, "true")
    error = await bench.fails(ToolError, tool, **{argument: "bash_9"})
    assert error.hint == "Known: bash_1."


async def test_more_than_is_kept_is_dropped_from_the_front_and_told(bench):
    _, shell = await started(bench, "head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    await ended(shell)
    result = await bench.call("BashOutput", bash_id=shell.id)
    assert result.text.startswith("[1,951,428 earlier bytes were dropped]\nxxx")
    assert result.structured["stdout"].endswith("xend\n")


async def test_closing_the_yard_ends_them(bench):
    _, shell = await started(bench, "sleep 60")
    await asyncio.to_thread(bench.yard.close)
    assert shell.ended.is_set()


async def test_the_next_result_of_the_session_says_once_that_a_background_command_has_ended(bench):
    _, shell = await started(bench, "sleep 0.1;  exit 3")
    await ended(shell)
    other = await bench.call("Bash", command="true", caller="other")
    assert "bash_1" not in other.text
    first = await bench.call("LS")
    assert first.text.endswith(
        "\n[bash_1 ended with exit code 3: sleep 0.1; exit 3. Read its output with BashOutput.]"
    )
    assert "bash_1" not in (await bench.call("LS")).text


async def test_nobody_is_told_of_an_end_that_was_asked_about(bench):
    _, shell = await started(bench, "true")
    await ended(shell)
    assert (await bench.call("BashOutput", bash_id=shell.id)).text == "[bash_1 ended with exit code 0]"
    assert "bash_1" not in (await bench.call("LS")).text
    _, shell = await started(bench, "sleep 60")
    assert "bash_2 was killed" in (await bench.call("KillShell", shell_id=shell.id)).text
    assert "bash_2" not in (await bench.call("LS")).text


async def test_a_killed_command_may_clean_up(bench):
    _, shell = await started(bench, "trap 'echo cleaned up; exit' TERM; echo up; sleep 60 & wait")
    await printed(bench, shell, "up\n")
    await bench.call("KillShell", shell_id=shell.id)
    assert (await bench.call("BashOutput", bash_id=shell.id)).structured["stdout"] == "cleaned up\n"


async def test_long_output_of_a_background_command_is_a_preview_and_a_file(bench):
    _, shell = await started(bench, "seq 1 20000")
    await ended(shell)
    result = await bench.call("BashOutput", bash_id=shell.id)
    assert len(result.text) < 5_000
    assert bench.read(result.structured["output_file"]).endswith(b"\n19999\n20000\n\n")


async def test_a_filter_looks_through_all_of_a_long_output(bench):
    _, shell = await started(bench, "seq 1 20000")
    await ended(shell)
    found = await bench.call("BashOutput", bash_id=shell.id, filter="^1234.$")
    assert found.structured["stdout"].split() == [str(number) for number in range(12340, 12350)]
