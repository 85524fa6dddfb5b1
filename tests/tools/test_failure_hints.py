"""A run that fails at a wall is told which one."""

import pytest


async def notes(bench, command, tool="Bash"):
    name = "command" if tool == "Bash" else "code"
    return (await bench.call(tool, **{name: command})).structured["notes"]


@pytest.mark.parametrize(
    "command", ["echo x > .git/config", "cd .git && echo x > config", "rm -f .git/config", "mv .git/config away"]
)
async def test_a_sealed_file_is_named_with_the_rule_that_seals_it(open_bench, command):
    bench = open_bench()
    bench.write(".git/config", "mine")
    (note,) = await notes(bench, command)
    assert note.startswith(".git/config is read-only to commands. ")
    assert "protected" in note


@pytest.mark.parametrize("tool", ["Bash", "execute_python"])
async def test_a_hidden_file_is_named_with_its_rule(open_bench, tool):
    bench = open_bench(permissions={"deny": ["Read(deep/.env)"]})
    bench.write("deep/.env", "secret")
    command = "cat deep/.env" if tool == "Bash" else "open('deep/.env').read()"
    (note,) = await notes(bench, command, tool)
    assert note.startswith("deep/.env is hidden from commands. ")
    assert "Read(deep/.env)" in note


async def test_where_the_name_is_not_told_it_is_said_that_there_are_such_files(open_bench):
    bench = open_bench(permissions={"deny": ["Read(.env)"]})
    bench.write(".env", "secret")
    assert await notes(bench, "echo something: Permission denied >&2; exit 1") == [
        "Some files are closed to commands by the user's rules: 0 are read-only, 1 hidden."
    ]


async def test_other_failures_and_other_workspaces_get_no_such_note(open_bench):
    bench = open_bench()
    assert await notes(bench, "mkdir closed; chmod 0 closed; ls closed/a") == []
    bench.write(".env", "x")
    assert await notes(bench, "cat missing") == []


async def test_where_nothing_may_be_written_that_is_said(open_bench):
    bench = open_bench(permissions={"deny": ["Write"]})
    assert any("write nothing" in note for note in await notes(bench, "touch made"))


async def test_a_command_that_starts_too_many_processes_is_told_the_limit(open_bench):
    bench = open_bench(toolyard={"code_execution": {"limits": {"processes": 20}}})
    many = "for i in $(seq 40); do sleep 2 & done"
    (note, *_) = [note for note in await notes(bench, many) if "process limit was reached" in note]
    assert "may have at most 20 processes and threads in total (code_execution.limits.processes)" in note
    threads = "import threading, time\nfor _ in range(60): threading.Thread(target=time.sleep, args=(2,)).start()"
    assert any("process limit was reached" in note for note in await notes(bench, threads, "execute_python"))
    assert await notes(bench, "true") == []
