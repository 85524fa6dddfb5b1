"""A command that could not be undone is announced before it runs, or refused where snapshots are required."""

import json
import os
import subprocess
import sys

import pytest

from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError, SystemFault, ToolError

FULL = {"watch": False, "most_stored": 1}


async def call(yard, tool, /, ask=None, **arguments):
    return await yard.dispatch(Call(tool, arguments, "test", session="s", **({"ask": ask} if ask else {})))


@pytest.fixture
def full(spot):
    """Opens yards on a workspace with an older snapshot and a store that takes no more."""

    def opened(**section):
        return spot.yard(snapshots={**FULL, **section}, mode="bypassPermissions")

    first = spot.yard()
    first.snapshots.create(reason="old")
    first.close()
    spot.write("a.txt", "newer than every snapshot")
    return opened


async def test_where_nobody_can_be_asked_the_first_call_is_answered_with_the_reason_and_runs_nothing(spot, full):
    yard = full()
    with pytest.raises(ToolError, match=r"Nothing was run yet.*most_stored") as raised:
        await call(yard, "Bash", command="rm a.txt")
    assert (spot.root / "a.txt").exists()
    assert "make the same call again" in raised.value.hint
    await call(yard, "Bash", command="rm a.txt")
    assert not (spot.root / "a.txt").exists()


async def test_every_session_hears_of_it_before_its_first_command(spot, full):
    yard = full()
    spot.write("b.txt", "b")
    for session, name in (("one", "a.txt"), ("another", "b.txt")):
        deletion = Call("Bash", {"command": f"rm {name}"}, "test", session=session)
        with pytest.raises(ToolError, match="Nothing was run yet"):
            await yard.dispatch(deletion)
        assert (spot.root / name).exists()
        await yard.dispatch(deletion)
        assert not (spot.root / name).exists()


async def test_code_is_announced_as_commands_are(spot, full):
    yard = spot.yard(toolset=("code",), snapshots=FULL, mode="bypassPermissions")
    with pytest.raises(ToolError, match="Nothing was run yet"):
        await call(yard, "execute_python", code="import os; os.unlink('a.txt')")
    assert (spot.root / "a.txt").exists()


async def test_a_person_is_asked_first(spot, full):
    yard = full()
    asked = []

    async def no(action, decision):
        asked.append((action.command, decision.reason))
        return False

    async def yes(action, decision):
        return True

    with pytest.raises(SecurityError, match="The answer was no"):
        await call(yard, "Bash", ask=no, command="rm a.txt")
    assert asked[0][0] == "rm a.txt"
    assert "cannot be restored" in asked[0][1]
    assert asked[0][1].endswith(".")
    assert (spot.root / "a.txt").exists()
    await call(yard, "Bash", ask=yes, command="rm a.txt")
    assert not (spot.root / "a.txt").exists()


async def test_what_only_reads_or_changes_one_file_goes_on(spot, full):
    yard = full()
    read = await call(yard, "Bash", command="cat a.txt")
    assert "newer" in read.text
    written = await call(yard, "Write", file_path="b.txt", content="b")
    assert "most_stored" in read.text + written.text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "rm a.txt"}),
        ("Bash", {"command": "touch b.txt"}),
        ("Write", {"file_path": "b.txt", "content": "b"}),
        ("Edit", {"file_path": "a.txt", "old_string": "newer", "new_string": "older"}),
    ],
)
async def test_where_snapshots_are_required_nothing_is_changed_without_one(spot, full, tool, arguments):
    yard = full(required=True)
    await call(yard, "Read", file_path="a.txt")
    for _ in range(2):
        with pytest.raises(SystemFault, match=r"Nothing was changed.*most_stored") as raised:
            await call(yard, tool, **arguments)
        assert "snapshot gc" in raised.value.hint
    assert sorted(os.listdir(spot.root)) == ["a.txt"]
    assert (spot.root / "a.txt").read_text().startswith("newer")


async def test_a_change_goes_on_as_soon_as_a_snapshot_can_be_taken_again(spot, full, monkeypatch):
    yard = full(required=True)
    with pytest.raises(SystemFault):
        await call(yard, "Bash", command="rm a.txt")
    monkeypatch.setattr("toolyard.snapshots.service.size_limits.DiskQuota.check", lambda self: None)
    await call(yard, "Bash", command="rm a.txt")
    newest = next(each for each in yard.snapshots.store.list() if each.reason == "before a change")
    assert yard.snapshots.store.read(newest.id, "a.txt").startswith(b"newer")


def executed(spot, config, command):
    (spot.folder / "t.yaml").write_text(json.dumps(config))
    words = [
        sys.executable,
        "-m",
        "toolyard",
        "exec",
        "--bash",
        "-c",
        command,
        "--config",
        str(spot.folder / "t.yaml"),
    ]
    words += ["--workspace", str(spot.root), "--state", str(spot.folder / "yards")]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def test_exec_says_it_on_standard_error_before_the_command_runs(spot, full):
    done = executed(spot, {"snapshots": FULL}, "rm a.txt; echo ran >&2")
    assert done.returncode == 0, done.stderr
    assert done.stderr.index("cannot be restored") < done.stderr.index("ran")


def test_exec_refuses_where_snapshots_are_required(spot, full):
    done = executed(spot, {"snapshots": {**FULL, "required": True}}, "rm a.txt")
    assert done.returncode != 0
    assert "snapshots.required" in done.stderr
    assert (spot.root / "a.txt").exists()
