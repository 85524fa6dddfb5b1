"""The snapshot tools: what they do, and that the policy holds in a snapshot as it does in the folder."""

import asyncio
import os
import queue

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.permission_modes import PermissionMode
from toolyard.storage.audit_reader import read

QUIET = {"snapshots": {"watch": False}}


@pytest.fixture
def keeping(open_bench):
    """A workspace whose snapshots are taken when a test says so."""

    def opener(mode=None, **config):
        config = {"snapshots": {"watch": False, "automatic": False}, **config}
        return open_bench(mode, (Toolset.CLAUDE, Toolset.WORKSPACE), **config)

    return opener


async def taken(bench, reason=""):
    return (await bench.call("snapshot_create", reason=reason)).structured["id"]


def event(bench):
    """The last one."""
    return list(read(bench.yard.state))[-1].event


async def test_a_snapshot_is_taken_and_listed(keeping):
    bench = keeping()
    bench.write("a.txt", "one")
    first = await taken(bench, "mine")
    bench.write("b/c.txt", "two")
    second = await taken(bench)
    listed = (await bench.call("snapshot_list")).structured["snapshots"]
    told = [(each["id"], each["reason"], each["files"], each["changes"]) for each in listed]
    assert told == [(second, "on demand", 2, 2), (first, "mine", 1, None)]
    again = (await bench.call("snapshot_create")).structured
    assert (again["id"], again["changed"]) == (second, False)
    assert len((await bench.call("snapshot_list", limit=1)).structured["snapshots"]) == 1


async def test_a_folder_and_a_file_are_shown_as_they_were(keeping):
    bench = keeping()
    bench.write("src/a.txt", "old\n")
    snapshot = await taken(bench)
    bench.write("src/a.txt", "new\n")
    top = (await bench.call("snapshot_show")).structured["entries"]
    assert [(each["name"], each["kind"]) for each in top] == [("src", "folder")]
    shown = await bench.call("snapshot_show", snapshot=snapshot[:6], path="src/a.txt")
    assert ("old" in shown.text, shown.structured["path"]) == (True, "src/a.txt")
    absolute = await bench.call("snapshot_show", path=f"{bench.path}/src")
    assert [each["name"] for each in absolute.structured["entries"]] == ["a.txt"]


async def test_a_diff_tells_texts_renames_and_binaries(keeping):
    bench = keeping()
    bench.write("a.txt", "one\ntwo\n")
    bench.write("b.bin", b"\0\1")
    bench.write("c.txt", "moved\n" * 50)
    first = await taken(bench)
    bench.write("a.txt", "one\n2\n")
    bench.write("b.bin", b"\0\1\2")
    os.rename(f"{bench.path}/c.txt", f"{bench.path}/d.txt")
    now = (await bench.call("snapshot_diff")).structured
    changes = {each["path"]: each for each in now["changes"]}
    assert "-two\n+2" in changes["a.txt"]["diff"]
    assert changes["b.bin"]["diff"].startswith("binary")
    assert (changes["d.txt"]["change"], changes["d.txt"]["from"]) == ("renamed", "c.txt")
    second = await taken(bench)
    between = (await bench.call("snapshot_diff", before=first, after=second, path="a.txt")).structured
    assert [each["path"] for each in between["changes"]] == ["a.txt"]


async def test_a_diff_tells_a_mode_that_changed_with_the_content(keeping):
    bench = keeping()
    path = bench.write("a.sh", "one\n")
    os.chmod(path, 0o644)
    await taken(bench)
    bench.write("a.sh", "two\n")
    os.chmod(path, 0o755)
    told = await bench.call("snapshot_diff")
    assert "M a.sh  mode 0644 → 0755" in told.text
    assert [(each["old_mode"], each["mode"]) for each in told.structured["changes"]] == [("0644", "0755")]


async def test_what_git_keeps_is_counted_and_told_to_who_asks(keeping):
    bench = keeping()
    bench.write("a.txt", "one\n")
    bench.write(".git/index", "1")
    await taken(bench)
    bench.write("a.txt", "two\n")
    bench.write(".git/index", "2")
    bench.write("sub/.git/objects/aa/bb", "3")
    told = await bench.call("snapshot_diff")
    assert [each["path"] for each in told.structured["changes"]] == ["a.txt", "sub"]
    assert told.structured["folded"] == [{"path": ".git", "changes": 1}, {"path": "sub/.git", "changes": 4}]
    assert (told.structured["total"], told.structured["hidden"]) == (7, 0)
    assert "[.git: 1 path changed; with_git shows them.]" in told.text
    assert "M .git/index" in (await bench.call("snapshot_diff", with_git=True)).text
    assert "M .git/index" in (await bench.call("snapshot_diff", path=".git")).text


async def test_a_restore_can_be_undone_and_is_recorded(keeping):
    bench = keeping()
    bench.write("a.txt", "old")
    snapshot = await taken(bench)
    bench.write("a.txt", "new")
    bench.write("b.txt", "new")
    done = (await bench.call("snapshot_restore", snapshot=snapshot)).structured
    assert (bench.names(), bench.read("a.txt"), done["written"], done["removed"]) == (["a.txt"], b"old", 1, 1)
    logged = event(bench)
    assert (logged.tool, logged.kind, logged.outcome.value) == ("snapshot_restore", "write", "ok")
    assert f"{done['undo']} undoes it" in logged.reason
    await bench.call("snapshot_restore", snapshot=done["undo"])
    assert (bench.names(), bench.read("a.txt")) == (["a.txt", "b.txt"], b"new")


async def test_a_restore_of_what_is_there_changes_nothing_and_says_so(keeping):
    bench = keeping()
    bench.write("a.txt", "old")
    snapshot = await taken(bench)
    done = await bench.call("snapshot_restore", snapshot=snapshot)
    assert (done.structured["changed"], f"Nothing differs from snapshot {snapshot}" in done.text) == (False, True)
    assert len((await bench.call("snapshot_list")).structured["snapshots"]) == 1


async def test_only_the_paths_that_are_named_are_restored(keeping):
    bench = keeping()
    bench.write("a.txt", "old")
    bench.write("src/b.txt", "old")
    snapshot = await taken(bench)
    bench.write("a.txt", "new")
    os.remove(bench.write("src/b.txt"))
    os.rmdir(f"{bench.path}/src")
    await bench.call("snapshot_restore", snapshot=snapshot, paths=["src/b.txt"])
    assert (bench.read("a.txt"), bench.read("src/b.txt")) == (b"new", b"old")


async def test_a_snapshot_of_another_folder_is_not_found_but_told(keeping, tmp_path):
    bench = keeping()
    await taken(bench)
    (tmp_path / "theirs").mkdir()
    theirs = bench.yard.snapshots.store.create(str(tmp_path / "theirs"), agent="bo").snapshot
    for tool in ("snapshot_show", "snapshot_restore"):
        assert (
            f"Snapshot {theirs.id} belongs to agent bo"
            in (await bench.fails(ToolError, tool, snapshot=theirs.id)).message
        )
    await bench.fails(ToolError, "snapshot_diff", before=theirs.id)


async def test_a_dry_run_changes_nothing_and_says_what_it_would(keeping):
    bench = keeping()
    bench.write("a.txt", "old")
    bench.write("gone.txt", "old")
    snapshot = await taken(bench)
    bench.write("a.txt", "new")
    bench.write("b.bin", b"\1\0")
    os.remove(f"{bench.path}/gone.txt")
    told = (await bench.call("snapshot_restore", snapshot=snapshot, dry_run=True)).structured
    assert (sorted(told["would_write"]), told["would_remove"]) == (["a.txt", "gone.txt"], ["b.bin"])
    assert (bench.read("a.txt"), bench.names()) == (b"new", ["a.txt", "b.bin"])


async def test_what_may_not_be_read_is_shown_in_no_snapshot(keeping):
    bench = keeping(permissions={"deny": ["Read(secret*)", "Read(hidden/**)"]})
    for name in ("secret.txt", "hidden/a.txt", "open.txt"):
        bench.write(name, "hunter2\n" * 50)
    snapshot = await taken(bench)
    os.rename(f"{bench.path}/secret.txt", f"{bench.path}/plain.txt")
    bench.write("hidden/a.txt", "hunter3\n")
    bench.write("secret-too.txt", "hunter3\n")
    for path in ("secret.txt", "hidden/a.txt", "hidden"):
        await bench.fails(SecurityError, "snapshot_show", path=path)
        await bench.fails(SecurityError, "snapshot_diff", path=path)
    shown = await bench.call("snapshot_show")
    assert "secret" not in shown.text
    differs = await bench.call("snapshot_diff", before=snapshot)
    # The renamed file would be compared with what it was under its old name.
    assert not {"hunter2", "hunter3"} & set(differs.text.replace("+", " ").replace("-", " ").split())
    assert (differs.structured["changes"], differs.structured["hidden"]) == ([], 3)


async def test_a_restore_leaves_alone_what_may_not_be_written(keeping):
    bench = keeping(permissions={"deny": ["Write(locked/**)"]})
    for name in ("a.txt", "locked/kept.txt", "locked/gone.txt", "new/.git/hooks/x", "new/b.txt"):
        bench.write(name, "old")
    snapshot = await taken(bench)
    for name in ("a.txt", "locked/kept.txt", "locked/added.txt"):
        bench.write(name, "new")
    os.remove(f"{bench.path}/locked/gone.txt")
    for name in ("new/.git/hooks/x", "new/b.txt"):
        os.remove(f"{bench.path}/{name}")
    for name in ("new/.git/hooks", "new/.git", "new"):
        os.rmdir(f"{bench.path}/{name}")
    done = (await bench.call("snapshot_restore", snapshot=snapshot)).structured
    assert bench.read("a.txt") == b"old"
    assert bench.read("locked/kept.txt") == bench.read("locked/added.txt") == b"new"
    # A folder that comes back whole would bring along what may not be written.
    assert bench.read("new/b.txt") == b"old"
    assert not os.path.exists(f"{bench.path}/locked/gone.txt")
    assert not os.path.exists(f"{bench.path}/new/.git/hooks/x")
    kept = {each["path"] for each in done["kept"]}
    assert {"locked/kept.txt", "locked/added.txt", "locked/gone.txt"} <= kept
    await bench.fails(SecurityError, "snapshot_restore", snapshot=snapshot, paths=["locked/kept.txt"])


async def test_a_restore_leaves_alone_what_may_not_be_read(keeping):
    bench = keeping(permissions={"deny": ["Read(secret/**)"]})
    for name in ("a.txt", "secret/edited.txt", "secret/gone.txt"):
        bench.write(name, "old")
    snapshot = await taken(bench)
    for name in ("a.txt", "secret/edited.txt", "secret/added.txt"):
        bench.write(name, "new")
    os.remove(f"{bench.path}/secret/gone.txt")
    dry = (await bench.call("snapshot_restore", snapshot=snapshot, dry_run=True)).structured
    assert (dry["would_write"], dry["would_remove"]) == (["a.txt"], [])
    done = (await bench.call("snapshot_restore", snapshot=snapshot)).structured
    assert (done["written"], done["removed"]) == (1, 0)
    assert bench.read("secret/edited.txt") == bench.read("secret/added.txt") == b"new"
    assert not os.path.exists(f"{bench.path}/secret/gone.txt")


async def test_a_restore_of_everything_leaves_git_alone_unless_it_is_asked_to(keeping):
    bench = keeping(PermissionMode.BYPASS)
    repository = ("HEAD", "refs/heads/main", "objects/aa/bb")
    for name in ("a.txt", *(f"{folder}.git/{name}" for folder in ("", "lib/") for name in repository)):
        bench.write(name, "old")
    snapshot = await taken(bench)
    for name in ("a.txt", ".git/refs/heads/main", "lib/.git/refs/heads/main"):
        bench.write(name, "new")
    dry = await bench.call("snapshot_restore", snapshot=snapshot, dry_run=True)
    assert (dry.structured["would_write"], dry.structured["would_leave"]) == (["a.txt"], [".git", "lib/.git"])
    assert dry.text.splitlines()[1:] == [
        "write a.txt",
        "[Would leave alone, with its commits: .git, lib/.git (with_git restores that, too).]",
    ]
    done = await bench.call("snapshot_restore", snapshot=snapshot)
    assert done.structured["left"] == [".git", "lib/.git"]
    assert "[Left alone, with its commits: .git, lib/.git (with_git restores that, too).]" in done.text
    assert (bench.read("a.txt"), bench.read(".git/refs/heads/main")) == (b"old", b"new")
    whole = await bench.call("snapshot_restore", snapshot=snapshot, with_git=True)
    assert (whole.structured["left"], "with with_git." in whole.text) == ([], True)
    assert bench.read(".git/refs/heads/main") == bench.read("lib/.git/refs/heads/main") == b"old"


async def test_what_a_restore_leaves_alone_is_not_named_to_who_may_not_read_it(keeping):
    bench = keeping(permissions={"deny": ["Read(secret/**)", "Write(secret/**)"]})
    bench.write("secret/a.txt", "old")
    snapshot = await taken(bench)
    bench.write("secret/a.txt", "new")
    done = await bench.call("snapshot_restore", snapshot=snapshot)
    assert (bench.read("secret/a.txt"), "a.txt" in done.text, done.structured["kept"]) == (b"new", False, [])


@pytest.mark.parametrize("tool", ["snapshot_restore", "snapshot_gc"])
async def test_where_only_reading_is_allowed_nothing_is_restored_or_dropped(keeping, tool):
    bench = keeping(PermissionMode.PLAN)
    bench.write("a.txt", "old")
    snapshot = await taken(bench)
    bench.write("a.txt", "new")
    arguments = {"snapshot": snapshot} if tool == "snapshot_restore" else {}
    await bench.fails(SecurityError, tool, **arguments)
    assert bench.read("a.txt") == b"new"


async def test_one_question_is_asked_for_a_whole_restore(keeping):
    bench = keeping(PermissionMode.DEFAULT)
    for number in range(20):
        bench.write(f"{number}.txt", "old")
    snapshot = await taken(bench)
    for number in range(20):
        bench.write(f"{number}.txt", "new")
    asked = []

    async def yes(action, decision):
        await asyncio.sleep(0)
        asked.append((action, decision))
        return True

    done = await bench.call("snapshot_restore", snapshot=snapshot, ask=yes)
    assert (done.structured["written"], len(asked)) == (20, 1)


async def test_a_path_outside_the_workspace_is_refused(keeping):
    bench = keeping()
    await taken(bench)
    for tool, arguments in (
        ("snapshot_show", {"path": "/etc"}),
        ("snapshot_diff", {"path": "../x"}),
        ("snapshot_restore", {"snapshot": "latest", "paths": ["/etc/passwd"]}),
    ):
        await bench.fails(SecurityError, tool, **arguments)


async def test_snapshots_of_other_folders_in_the_same_store_are_nobodys_business(keeping, tmp_path):
    bench = keeping()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "theirs.txt").write_text("theirs")
    theirs = bench.yard.snapshots.store.create(str(tmp_path / "other")).snapshot.id
    assert (await bench.call("snapshot_list")).structured["snapshots"] == []
    await taken(bench)
    for tool, arguments in (
        ("snapshot_show", {"snapshot": theirs}),
        ("snapshot_diff", {"before": theirs}),
        ("snapshot_diff", {"before": "latest", "after": theirs}),
        ("snapshot_restore", {"snapshot": theirs}),
    ):
        await bench.fails(ToolError, tool, **arguments)


async def test_gc_drops_only_what_the_configuration_lets_go(keeping):
    bench = keeping(snapshots={"watch": False, "automatic": False, "keep": 2, "days": 1e-9})
    for number in range(5):
        bench.write("a.txt", str(number))
        await taken(bench)
    assert (await bench.call("snapshot_gc")).structured["dropped"] == 3
    assert len((await bench.call("snapshot_list")).structured["snapshots"]) == 2


async def test_a_write_is_kept_before_and_after_it(open_bench):
    bench = open_bench(None, (Toolset.CLAUDE, Toolset.WORKSPACE), **QUIET)
    bench.write("a.txt", "old")
    await bench.call("Read", file_path="a.txt")
    assert not os.path.exists(bench.yard.home.snapshots_folder)
    await bench.call("Write", file_path="a.txt", content="new")
    bench.yard.snapshots.flush()
    listed = (await bench.call("snapshot_list")).structured["snapshots"]
    assert [each["reason"] for each in listed] == ["after Write", "before a change"]
    assert "old" in (await bench.call("snapshot_show", snapshot=listed[1]["id"], path="a.txt")).text


async def test_what_a_command_and_code_change_can_be_undone(open_bench):
    bench = open_bench(None, Toolset.ALL, **QUIET)
    bench.write("a.txt", "old")
    await bench.call("Bash", command="rm a.txt")
    await bench.call("execute_python", code="open('b.txt', 'w').write('made')")
    bench.yard.snapshots.flush()
    listed = (await bench.call("snapshot_list")).structured["snapshots"]
    assert listed[0]["reason"] == "after Bash, execute_python"
    await bench.call("snapshot_restore", snapshot=listed[-1]["id"])
    assert (bench.read("a.txt"), os.path.exists(f"{bench.path}/b.txt")) == (b"old", False)


async def test_the_end_of_a_background_command_is_a_change(open_bench):
    bench, told = open_bench(None, Toolset.ALL, **QUIET), queue.Queue()
    command = "while [ ! -e go ]; do sleep 0.05; done; touch made"
    await bench.call("Bash", command=command, run_in_background=True)
    bench.yard.snapshots.flush()
    bench.yard.snapshots.on_snapshot(told.put)
    bench.write("go")
    while True:
        taken = await asyncio.to_thread(told.get, timeout=30)
        if taken.snapshot.counts.files == 2:
            break
    assert taken.snapshot.reason == "after Bash"


async def test_whoever_listens_hears_of_each_file_operation(open_bench):
    bench, told = open_bench(None, Toolset.ALL, **QUIET), []
    bench.yard.detector.register_callback(told.append)
    await bench.call("Write", file_path="a.txt", content="x")
    await bench.call("Read", file_path="a.txt")
    await bench.call("search_tools", query="x")
    assert [(each.tool_name, each.changes_files, each.paths) for each in told] == [
        ("Write", True, (f"{bench.path}/a.txt",)),
        ("Read", False, (f"{bench.path}/a.txt",)),
    ]
    assert told[0].snapshot == bench.yard.snapshots.store.list()[-1].id


async def test_whoever_listens_hears_how_an_operation_ended(open_bench):
    bench, told = open_bench(None, Toolset.ALL, **QUIET), []
    bench.yard.detector.register_callback(lambda each: told.append((each.tool_name, each.outcome.value)))
    await bench.call("Bash", command="exit 3")
    await bench.call("execute_python", code="1 / 0")
    with pytest.raises(ToolError):
        await bench.call("Read", file_path="missing.txt")
    with pytest.raises(SecurityError):
        await bench.call("Read", file_path="/etc/passwd")
    assert told == [("Bash", "failed"), ("execute_python", "failed"), ("Read", "failed"), ("Read", "denied")]
