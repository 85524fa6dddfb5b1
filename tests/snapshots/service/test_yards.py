"""A workspace that is opened keeps its own history, and nothing of it is in anybody's way."""

import asyncio
import json
import os
import queue
import threading

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.loader import load_config
from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError

LONG = 30.0


async def call(yard, tool, /, **arguments):
    return await yard.dispatch(Call(tool, arguments, "test", session="s"))


def ours():
    return [each.name for each in threading.enumerate() if each.name in {"toolyard-snapshots", "toolyard-watching"}]


async def test_a_session_that_only_reads_opens_no_store_and_starts_no_thread(spot):
    yard = spot.yard()
    for tool, arguments in (("Read", {"file_path": "a.txt"}), ("Grep", {"pattern": "o"}), ("LS", {"path": "."})):
        await call(yard, tool, **arguments)
    assert (ours(), os.path.exists(yard.home.snapshots_folder)) == ([], False)


async def test_a_quick_write_waits_for_its_baseline_in_a_thread(spot):
    yard = spot.yard(snapshots={"watch": False})
    write = Call("Write", {"file_path": "b.txt", "content": "b"}, "test", session="s")
    assert yard.dispatch.try_run_inline(write) is None
    assert not (spot.root / "b.txt").exists()
    await yard.dispatch(write)
    assert (
        yard.dispatch.try_run_inline(Call("Write", {"file_path": "c.txt", "content": "c"}, "test", session="s"))
        is not None
    )


async def test_a_write_that_is_refused_or_lies_elsewhere_is_no_change(spot, tmp_path):
    (tmp_path / "context").mkdir()
    paths = [{"path": str(tmp_path / "context"), "permission": "write"}]
    yard = spot.yard(permissions={"deny": ["Write(a.txt)"]}, orchestrator={"context_paths": paths})
    result = await asyncio.gather(call(yard, "Write", file_path="a.txt", content="x"), return_exceptions=True)
    assert isinstance(result[0], Exception)
    await call(yard, "Write", file_path=str(tmp_path / "context" / "x.txt"), content="x")
    assert not os.path.exists(yard.home.snapshots_folder), "that is kept where the context path has its own"


async def test_a_write_through_a_link_into_the_workspace_is_one(spot, tmp_path):
    (tmp_path / "context").mkdir()
    os.symlink(spot.root / "a.txt", tmp_path / "context" / "link")
    paths = [{"path": str(tmp_path / "context"), "permission": "write"}]
    yard = spot.yard(orchestrator={"context_paths": paths}, mode="bypassPermissions", snapshots={"watch": False})
    os.symlink("a.txt", spot.root / "inside")
    await call(yard, "Read", file_path="inside")
    await call(yard, "Write", file_path="inside", content="new")
    assert yard.snapshots.store.read("latest", "a.txt") == b"old"


async def test_what_the_user_changes_meanwhile_is_kept_too(spot):
    yard, told = spot.yard(), queue.Queue()
    await call(yard, "Write", file_path="b.txt", content="b")
    yard.snapshots.flush()
    assert await asyncio.to_thread(yard.snapshots._watcher.started.wait, LONG)
    assert yard.snapshots._watcher.is_watching
    yard.snapshots.on_snapshot(told.put)
    spot.write("a.txt", "by the user")
    while True:
        taken = await asyncio.to_thread(told.get, timeout=LONG)
        if yard.snapshots.store.read(taken.snapshot.id, "a.txt") == b"by the user":
            break
    assert taken.snapshot.reason == "after a change from outside"


async def test_a_change_that_the_watcher_sees_during_a_command_belongs_to_it(spot):
    yard, told = spot.yard(), queue.Queue()
    await call(yard, "Write", file_path="b.txt", content="b")
    yard.snapshots.flush()
    assert await asyncio.to_thread(yard.snapshots._watcher.started.wait, LONG)
    yard.snapshots.on_snapshot(told.put)
    command = "echo now > a.txt; until [ -e go ]; do sleep 0.05; done"
    running = asyncio.create_task(call(yard, "Bash", command=command))
    while True:
        taken = await asyncio.to_thread(told.get, timeout=LONG)
        if yard.snapshots.store.read(taken.snapshot.id, "a.txt") == b"now\n":
            break
    assert not running.done()
    spot.write("go", "")
    await running
    assert taken.snapshot.reason == "after Bash"


async def test_closing_a_yard_keeps_the_last_change(spot):
    yard = spot.yard()
    await call(yard, "Read", file_path="a.txt")
    await call(yard, "Write", file_path="a.txt", content="last")
    yard.close()
    again = spot.yard()
    assert again.snapshots.store.read("latest", "a.txt") == b"last"


async def test_our_links_beside_an_agents_files_are_no_part_of_its_work(tmp_path):
    config = tmp_path / "team.yaml"
    config.write_text(json.dumps({"toolyard": {"workspace": "root"}, "agents": [{"id": "a"}, {"id": "b"}]}))
    (tmp_path / "root").mkdir()
    workspace = str(tmp_path / "root" / "agents" / "a" / "workspace")
    options = YardOptions(
        workspace=workspace,
        config=load_config(str(config)),
        agent="a",
        toolset=Toolset.ALL,
        state_home=str(tmp_path / "state"),
    )
    with Yard.open(options) as yard:
        assert os.path.islink(f"{workspace}/memory")
        await call(yard, "Write", file_path="mine.txt", content="x")
        os.symlink("mine.txt", f"{workspace}/own-link")
        taken = await asyncio.to_thread(yard.snapshots.create)
        names = [entry.name for entry in yard.snapshots.store.show(taken.snapshot.id)]
    assert names == [b"mine.txt", b"own-link"]


async def test_the_snapshots_are_written_by_no_tool_wherever_they_lie(spot, tmp_path):
    documents = tmp_path / "documents"
    documents.mkdir()
    yard = spot.yard(
        mode="moderate",
        permissions={"moderate_roots": [str(documents)]},
        orchestrator={"snapshot_storage": str(documents / "kept")},
    )
    await call(yard, "Write", file_path=str(documents / "other.txt"), content="x")
    await call(yard, "Write", file_path="new.txt", content="new")
    assert os.path.exists(documents / "kept" / "index.sqlite3")
    with pytest.raises(SecurityError):
        await call(yard, "Write", file_path=str(documents / "kept" / "index.sqlite3"), content="x")


async def test_a_watched_folder_is_not_looked_at_again_before_each_change(spot, monkeypatch):
    monkeypatch.setattr("toolyard.snapshots.service.auto_snapshots._FRESH_SECONDS", 0.0)
    yard = spot.yard()
    await call(yard, "Write", file_path="b.txt", content="b")
    write = Call("Write", {"file_path": "c.txt", "content": "c"}, "test", session="s")
    assert yard.snapshots._watcher is None, "a session that is over in a moment needs none"
    await asyncio.to_thread(yard.snapshots.flush)
    watcher = yard.snapshots._watcher
    assert await asyncio.to_thread(watcher.started.wait, LONG)
    assert yard.dispatch.try_run_inline(write) is not None
    watcher.close()
    assert yard.dispatch.try_run_inline(write) is None
