"""Bash in front: what it answers, where it runs, and how it ends."""

import asyncio
import os
import time

import pytest

from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.permission_modes import PermissionMode
from toolyard.storage.audit_reader import read

GONE_SECONDS = 1.0
LONG = {"limits": {"output_chars": 2_000}}


def events(bench):
    return [record.event for record in read(bench.yard.state)]


@pytest.mark.parametrize("tool", ["Bash", "execute_bash"])
async def test_a_command_answers_with_both_streams_and_its_exit_code(bench, tool):
    result = await bench.call(tool, command="echo out; echo err >&2; exit 3")
    assert result.text == "out\nerr\nExit code 3"
    assert result.structured == {
        "stdout": "out\n",
        "stderr": "err\n",
        "exit_code": 3,
        "ending": "finished",
        "notes": [],
        "sandbox": "bubblewrap",
        "folder": bench.path,
    }


async def test_a_command_that_says_nothing_is_told_so(bench):
    assert (await bench.call("Bash", command="true")).text == "(no output)"


async def test_bytes_that_are_no_text_are_replaced(bench):
    result = await bench.call("Bash", command=r"printf 'a\xff\0b'")
    assert result.structured["stdout"] == "a�\0b"


async def test_a_command_longer_than_an_argument_can_be_runs(bench):
    result = await bench.call("Bash", command=f": {'x' * 150_000}\necho done")
    assert result.structured["stdout"] == "done\n"


async def test_the_folder_persists_for_a_session_and_for_no_other(bench):
    os.mkdir(f"{bench.path}/deep")
    moved = await bench.call("Bash", command="cd deep", caller="one")
    assert moved.structured["folder"] == f"{bench.path}/deep"
    assert (await bench.call("Bash", command="pwd", caller="one")).text == f"{bench.path}/deep"
    assert (await bench.call("Bash", command="pwd", caller="two")).text == bench.path


async def test_the_folder_persists_when_the_command_fails(bench):
    os.mkdir(f"{bench.path}/deep")
    await bench.call("Bash", command="cd deep; exit 1")
    assert (await bench.call("Bash", command="pwd")).text == f"{bench.path}/deep"


@pytest.mark.parametrize("place", ["deep", "/tmp/deep"])
async def test_a_folder_that_went_away_does_not_break_the_next_command(bench, place):
    folder = os.path.join(bench.path, place)
    await bench.call("Bash", command=f"mkdir {folder}; cd {folder}", caller="one")
    await bench.call("Bash", command=f"rmdir {folder}", caller="two")
    note = f"{folder} no longer exists, so this ran in the workspace."
    result = await bench.call("Bash", command="pwd", caller="one")
    assert (result.text, result.structured["notes"]) == (f"{bench.path}\n[{note}]", [note])
    assert (await bench.call("Bash", command="pwd", caller="one")).text == bench.path


async def test_a_background_command_starts_in_the_workspace_when_its_folder_went_away(bench):
    await bench.call("Bash", command="mkdir /tmp/deep; cd /tmp/deep", caller="one")
    await bench.call("Bash", command="rmdir /tmp/deep", caller="two")
    started = await bench.call("Bash", command="pwd", run_in_background=True, caller="one")
    assert started.text.startswith("[/tmp/deep no longer exists, so this runs in the workspace.]\nRunning ")
    shell = bench.yard.sandboxes.background_commands.get(started.structured["shell_id"])
    assert await asyncio.to_thread(shell.ended.wait, 20)
    assert (await bench.call("BashOutput", bash_id=shell.id)).structured["stdout"] == f"{bench.path}\n"


@pytest.mark.parametrize(
    "lie",
    [
        r"printf '/tmp\0touch planted\n' >&3",
        "printf relative >&3",
        "printf /%05000d 0 >&3",
        r"printf '/tmp/\xff' >&3",
        "printf /nowhere >&3",
    ],
)
async def test_a_folder_that_a_command_made_up_neither_breaks_nor_becomes_the_next_one(bench, lie):
    await bench.call("Bash", command=f"{lie}; trap - EXIT")
    result = await bench.call("Bash", command="pwd")
    assert result.structured["stdout"] == f"{bench.path}\n"
    assert bench.names() == []


async def test_a_folder_whose_name_is_no_text_is_kept_and_shown(bench):
    moved = await bench.call("Bash", command=r"mkdir $'\xff'; cd $'\xff'")
    assert moved.structured["folder"] == f"{bench.path}/�"
    await bench.call("Bash", command="touch here")
    assert os.listdir(os.fsencode(bench.path) + b"/\xff") == [b"here"]


async def test_a_timeout_ends_the_command_and_keeps_what_it_had_printed(bench):
    result = await bench.call("Bash", command="echo early; sleep 60; touch late", timeout=1_500)
    note = "Timed out and was ended; this is what it had printed. Name a longer timeout, or do less."
    assert result.text == f"early\nExit code 143\n[{note}]"
    assert (result.structured["ending"], bench.names()) == ("timeout", [])


async def test_processes_left_behind_are_ended_and_told(bench):
    one = await bench.call("Bash", command="sleep 60 >/dev/null 2>&1 & echo $!")
    assert one.structured["notes"] == [
        "1 process it left running was ended. Use run_in_background for what should run on."
    ]
    two = await bench.call("Bash", command="sleep 60 & sleep 60 & disown -a")
    assert two.structured["notes"][0].startswith("2 processes it left running were ended.")
    assert (await bench.call("Bash", command="pgrep sleep")).structured["stdout"] == ""


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("sudo ls", "Run it without them, inside the workspace."),
        ("vim a.txt", "Use the Edit or Write tool, or sed."),
    ],
)
async def test_what_cannot_work_is_refused_with_what_to_do_instead(bench, command, hint):
    error = await bench.fails(ToolError, "Bash", command=command)
    assert hint in error.hint


async def test_a_command_that_wants_the_network_is_told_that_there_is_none(bench):
    result = await bench.call("Bash", command="curl -s -m 5 http://example.com")
    assert result.structured["exit_code"] != 0
    assert "The sandbox has no network." in result.text
    assert "no network" not in (await bench.call("Bash", command="false")).text


async def test_long_output_goes_whole_to_a_file_and_is_shown_by_its_ends(open_bench):
    bench = open_bench(**LONG)
    result = await bench.call("Bash", command="seq 1 5000; echo wrong >&2")
    file = result.structured["output_file"]
    whole = "\n".join(map(str, range(1, 5001)))
    assert bench.read(file).decode() == f"--- stdout ---\n{whole}\n\n--- stderr ---\nwrong\n\n"
    assert bench.read(".toolyard/.gitignore") == b"*\n"
    assert result.text.startswith("1\n2\n3\n")
    assert f"characters left out; the whole output is in {file} ...]" in result.text
    assert result.text.endswith("4999\n5000\nwrong")
    assert len(result.structured["stdout"]) + len(result.structured["stderr"]) < 2_200


async def test_long_output_is_a_short_preview_and_a_file(bench):
    whole = await bench.call("Bash", command="head -c 29999 /dev/zero | tr '\\0' x")
    assert (len(whole.structured["stdout"]), "output_file" in whole.structured) == (29_999, False)
    long = await bench.call("Bash", command="seq 1 8000")
    assert len(long.text) < 4_200
    assert long.text.startswith("1\n2\n")
    assert long.text.endswith("\n7999\n8000")
    assert bench.read(long.structured["output_file"]).startswith(b"--- stdout ---\n1\n2\n")


@pytest.mark.parametrize("tool", ["Bash", "execute_bash"])
async def test_a_call_cannot_leave_the_sandbox_and_is_told_who_can(open_bench, tool):
    bench = open_bench()
    error = await bench.fails(SecurityError, tool, command="touch here", dangerouslyDisableSandbox=True)
    assert error.message.startswith("dangerouslyDisableSandbox is refused: a call cannot leave the sandbox")
    assert bench.names() == []
    await bench.call(tool, command="touch here", dangerouslyDisableSandbox=False)
    assert bench.names() == ["here"]
    assert "dangerouslyDisableSandbox" not in bench.yard.dispatch.tools[tool].input_schema["properties"]


async def test_where_there_is_no_sandbox_there_is_none_to_leave(open_bench):
    bench = open_bench(PermissionMode.BYPASS)
    result = await bench.call("Bash", command="echo out", dangerouslyDisableSandbox=True)
    assert result.structured["stdout"] == "out\n"


async def test_the_ignore_file_of_the_user_stays_as_it_is(open_bench):
    bench = open_bench(**LONG)
    bench.write(".toolyard/.gitignore", "output/\n")
    await bench.call("Bash", command="seq 1 5000")
    assert bench.read(".toolyard/.gitignore") == b"output/\n"


@pytest.mark.parametrize(
    ("link", "to", "prey"),
    [
        (".toolyard/.gitignore", "../toolyard.yaml", "toolyard.yaml"),
        (".toolyard/output", "../.git/hooks", ".git/hooks/pre-commit"),
        (".toolyard", ".git/hooks", ".git/hooks/pre-commit"),
    ],
)
async def test_a_planted_link_does_not_lead_the_output_to_a_protected_file(open_bench, link, to, prey):
    bench = open_bench(**LONG)
    bench.write(prey, "mine")
    await bench.call("Bash", command=f"mkdir -p {os.path.dirname(link) or '.'}; ln -s {to} {link}")
    protected = [name for name in bench.names() if not name.startswith(".toolyard")]
    result = await bench.call("Bash", command="seq 1 5000")
    assert "output_file" not in result.structured
    assert result.text.startswith("1\n2\n")
    assert [name for name in bench.names() if not name.startswith(".toolyard")] == protected
    assert bench.read(prey) == b"mine"


@pytest.mark.parametrize("options", [{"mode": PermissionMode.PLAN}, {"permissions": {"deny": ["Write"]}}])
async def test_where_nothing_may_be_written_long_output_is_only_cut(open_bench, options):
    bench = open_bench(**LONG, **options)
    result = await bench.call("Bash", command="seq 1 5000")
    assert "characters left out ...]" in result.text
    assert ("output_file" in result.structured, bench.names()) == (False, [])


async def test_endless_output_is_ended_and_told(open_bench):
    bench = open_bench(toolyard={"code_execution": {"limits": {"output_bytes": 1 << 20}}})
    result = await bench.call("Bash", command="yes")
    assert result.structured["ending"] == "output"
    assert "it printed more than 1 MiB. Send its output to a file." in result.text


async def test_cancelling_ends_the_command_at_once(bench):
    fifo = f"{bench.path}/fifo"
    os.mkfifo(fifo)
    running = asyncio.create_task(bench.call("Bash", command="echo up > fifo; sleep 60; touch late"))
    with await asyncio.to_thread(open, fifo) as up:
        assert up.read() == "up\n"
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < GONE_SECONDS
    assert (await bench.call("Bash", command="pgrep sleep")).structured["stdout"] == ""
    assert [event.outcome.value for event in events(bench)] == ["cancelled", "ok"]


async def test_each_command_is_one_event_that_names_the_sandbox(bench):
    await bench.call("Bash", command="exit 3")
    await bench.fails(ToolError, "Bash", command="sudo ls")
    shown = [(event.tool, event.kind, event.target, event.outcome.value) for event in events(bench)]
    assert shown == [("Bash", "execute", "exit 3", "ok"), ("Bash", "execute", "sudo ls", "failed")]
    assert events(bench)[0].reason.endswith("Sandbox: bubblewrap. Exit code 3.")


async def test_plan_mode_runs_what_only_reads_and_refuses_the_rest(open_bench):
    bench = open_bench(PermissionMode.PLAN)
    bench.write("a.txt", "one\n")
    assert (await bench.call("Bash", command="cat a.txt")).text == "one"
    await bench.fails(SecurityError, "Bash", command="touch b.txt")
    assert bench.names() == ["a.txt"]


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
@pytest.mark.parametrize("answer", [True, False])
async def test_a_command_that_was_asked_about_runs_only_after_a_yes(open_bench, mode, answer):
    asked = []

    async def ask(action, decision):
        asked.append(action.command)
        return answer

    bench = open_bench(mode)
    if answer:
        await bench.call("Bash", command="touch made", ask=ask)
    else:
        await bench.fails(SecurityError, "Bash", command="touch made", ask=ask)
    assert (asked, bench.names()) == (["touch made"], ["made"] if answer else [])
