"""What one agent writes the other sees, read-only, and is told about with its next result."""

import threading
from types import SimpleNamespace

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.sharing.service import SharingService
from toolyard.snapshots import SnapshotStore, StoreOptions


async def test_a_peer_reads_what_was_written(a, b):
    await b.write("notes/x.txt", "hello from b")
    await b.share()

    assert "hello from b" in await a.read("shared/agent_b/notes/x.txt")


async def test_a_change_is_published_by_itself(a, b):
    await b.write("x.txt", "1")
    await b.write("x.txt", "2")
    b.yard.snapshots.flush()
    assert b.yard.sharing.flush(30)

    assert "2" in await a.read("shared/agent_b/x.txt")


async def test_what_was_written_last_is_published_when_the_agent_leaves(team, a):
    b = team.open("agent_b")
    await b.write("x.txt", "last words")
    b.yard.close()

    assert "last words" in await a.read("shared/agent_b/x.txt")


async def test_a_peer_cannot_write_there(a, b):
    await b.write("x.txt", "b's")
    await b.share()

    with pytest.raises(SecurityError):
        await a.write("shared/agent_b/x.txt", "a's")
    with pytest.raises(SecurityError):
        await a.write("shared/agent_b/new.txt", "a's")


async def test_searches_of_the_shared_folder_find_the_newest_files_once(a, b):
    for number in range(5):
        await b.write("deep/x.txt", f"needle {number}")
        await b.share()

    found = (await a.call("Grep", pattern="needle", path="shared", output_mode="content")).text
    listed = (await a.call("Glob", pattern="shared/**/*.txt")).text

    assert found.count("needle") == 1
    assert "needle 4" in found
    assert listed.count("x.txt") == 1


async def test_the_next_result_tells_of_the_change_once(a, b):
    await a.write("own.txt", "1")
    await b.write("x.txt", "1")
    await b.write("y.txt", "1")
    await b.share()

    first = await a.call("Read", file_path="own.txt")
    second = await a.call("Read", file_path="own.txt")

    assert "[agent_b changed 2 files: shared/agent_b/x.txt, shared/agent_b/y.txt]" in first.text
    assert "agent_b" not in second.text


async def test_changes_that_came_in_several_steps_are_told_together(a, b):
    await a.write("own.txt", "1")
    await b.write("told.txt", "1")
    await b.share()
    await a.call("Read", file_path="own.txt")
    for number in range(3):
        await b.write("x.txt", f"again {number}")
        await b.write(f"y{number}.txt", "1")
        await b.share()

    said = (await a.call("Read", file_path="own.txt")).text

    assert "[agent_b changed 4 files: shared/agent_b/x.txt, shared/agent_b/y0.txt, " in said
    assert "told.txt" not in said


async def test_what_a_rule_hides_is_neither_published_nor_told(team):
    (team.path / "toolyard.yaml").write_text(
        (team.path / "toolyard.yaml").read_text() + "permissions: {deny: ['Read(/private/**)'], presets: [secrets]}\n"
    )
    team.config = load_config(str(team.path / "toolyard.yaml"))
    a, b = team.open("agent_a"), team.open("agent_b")
    (b.work / "private").mkdir()
    (b.work / "private" / "key").write_text("secret")
    (b.work / ".env").write_text("TOKEN=secret")
    await b.write("open.txt", "open")
    await b.share()

    said = (await a.call("LS", path="shared/agent_b")).text

    assert "open.txt" in said
    assert not (team.root / "shared/agent_b/.env").exists()
    assert not (team.root / "shared/agent_b/private/key").exists()
    for path in (".env", "private/key"):
        with pytest.raises(ToolyardError):
            await a.call("shared_read", peer="agent_b", path=path)
        with pytest.raises(ToolError, match="has no matching files"):
            await a.merge("agent_b", path)


async def test_a_link_of_the_peer_leads_nowhere_that_its_reader_may_not_go(team, a, b):
    (team.root / "agents/agent_b/memory/own.txt").write_text("b's own memory")
    (team.path / "outside.txt").write_text("the user's own")
    (b.work / "absolute").symlink_to(team.root / "agents/agent_b/memory/own.txt")
    (b.work / "up").symlink_to("../../../../outside.txt")
    (b.work / "work").symlink_to(b.work / "x.txt")
    await b.write("x.txt", "shared")
    await b.share()

    for name in ("absolute", "up", "work"):
        assert (team.root / "shared/agent_b" / name).is_symlink()
        with pytest.raises(ToolyardError):
            await a.read(f"shared/agent_b/{name}")
        with pytest.raises(ToolyardError):
            await a.call("shared_read", peer="agent_b", path=name)


async def test_links_that_an_agent_has_beside_its_files_are_not_published(team, a, b):
    await b.write("x.txt", "1")
    await b.share()

    assert sorted(entry.name for entry in (team.root / "shared/agent_b").iterdir()) == [
        ".toolyard-snapshot.json",
        "x.txt",
    ]


async def test_the_list_tells_of_peers_and_what_changed_since_it_was_last_asked(a, b):
    nothing = (await a.call("shared_list")).structured["peers"]
    await b.write("x.txt", "1")
    await b.share()
    first = (await a.call("shared_list")).structured["peers"]
    await b.write("y.txt", "1")
    await b.share()
    second = (await a.call("shared_list")).structured["peers"]
    third = (await a.call("shared_list")).structured["peers"]

    assert nothing == [{"agent": "agent_b", "path": "shared/agent_b", "snapshot": "", "changed": 0, "files": []}]
    assert first[0]["snapshot"]
    assert (second[0]["changed"], second[0]["files"]) == (1, ["y.txt"])
    assert (third[0]["changed"], third[0]["files"]) == (0, [])


async def test_a_shared_file_is_read_by_its_name_in_the_peers_workspace(a, b):
    await b.write("deep/x.txt", "one\ntwo\nthree\n")
    await b.share()

    read = (await a.call("shared_read", peer="agent_b", path="deep/x.txt", offset=2, limit=1)).structured

    assert "two" in read["content"]
    assert "three" not in read["content"]
    assert read["snapshot"]


@pytest.mark.parametrize("path", ["../../agents/agent_a/workspace/own.txt", "deep/../../agent_b/x.txt"])
async def test_a_path_of_the_peer_does_not_go_up(a, b, path):
    await a.write("own.txt", "1")
    await b.write("x.txt", "1")
    await b.share()

    with pytest.raises(ValidationError):
        await a.call("shared_read", peer="agent_b", path=path)


async def test_an_unknown_peer_is_named_with_those_there_are(a):
    with pytest.raises(ValidationError) as refused:
        await a.call("shared_read", peer="agent_x", path="x")

    assert "agent_b" in refused.value.hint


async def test_a_peer_that_has_shared_nothing_is_told(a):
    with pytest.raises(ToolError, match="agent_b has shared nothing yet"):
        await a.call("shared_read", peer="agent_b", path="x")


async def test_an_agent_alone_has_nobody_to_share_with(tmp_path):
    work = tmp_path / "ws"
    work.mkdir()
    settings = Settings.from_environment({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    with Yard.open(YardOptions(str(work), Config(), settings=settings, toolset=Toolset.WORKSPACE)) as yard:
        assert yard.sharing is None
        with pytest.raises(ToolError, match="no other agents"):
            await yard.dispatch(Call("shared_list", {}, "test"))
    assert list(work.iterdir()) == []


def left_behind(b, text="left behind"):
    """What a process leaves that was killed after its last snapshot."""
    (b.work / "x.txt").write_text(text)
    with SnapshotStore(b.yard.home.snapshots_folder, StoreOptions(ignore=b.yard.snapshots.ignore_rules())) as store:
        store.create(str(b.work), agent="agent_b")


@pytest.mark.parametrize("tool", ["shared_read", "shared_merge", "shared_list"])
async def test_what_a_killed_peer_did_not_live_to_publish_is_published_for_it(a, b, tool):
    left_behind(b)

    arguments = {"shared_read": {"path": "x.txt"}, "shared_merge": {"paths": ["x.txt"]}}.get(tool)
    await a.call(tool, **({"peer": "agent_b", **arguments} if arguments else {}))

    assert "left behind" in await a.read("shared/agent_b/x.txt")


async def test_a_killed_peer_is_published_from_a_snapshot_that_names_several_agents(a, b):
    (b.work / "late.txt").write_text("late")
    b.yard.snapshots.store.create(str(b.work), agent="agent_a, agent_b")
    a.yard.sharing.catch_up()
    assert await a.read("shared/agent_b/late.txt") == "late"


async def test_whoever_publishes_looks_after_its_peers_too(a, b, monkeypatch):
    monkeypatch.setattr("toolyard.sharing.service._MIN_PEER_AGE_SECONDS", 0.0)
    left_behind(b)

    await a.write("own.txt", "1")
    await a.share()

    assert "left behind" in await a.read("shared/agent_b/x.txt")


async def test_whoever_publishes_leaves_what_is_new_to_the_peer_that_made_it(a, b):
    left_behind(b)

    await a.write("own.txt", "1")
    await a.share()

    with pytest.raises(ToolError):
        await a.read("shared/agent_b/x.txt")


async def test_a_peer_that_published_everything_is_left_alone(a, b):
    await b.write("x.txt", "1")
    await b.share()
    before = (await a.call("shared_list")).structured["peers"][0]["snapshot"]
    left_behind(b, "1")

    assert (await a.call("shared_list")).structured["peers"][0]["snapshot"] == before


async def test_a_tree_that_was_published_under_other_rules_is_published_anew(team, b):
    (b.work / "key.pem").write_text("secret")
    await b.write("x.txt", "1")
    await b.share()
    assert (team.root / "shared/agent_b/key.pem").exists()
    config = team.path / "toolyard.yaml"
    config.write_text(config.read_text() + "permissions: {presets: [secrets]}\n")
    team.config = load_config(str(config))

    await team.open("agent_a").call("shared_list")

    assert not (team.root / "shared/agent_b/key.pem").exists()
    assert (team.root / "shared/agent_b/x.txt").exists()


async def test_closing_publishes_what_still_waits_for_its_turn(b, monkeypatch):
    published, began = [], threading.Event()

    def publish(sharing, snapshot):
        began.set()
        with sharing._ready:
            assert sharing._ready.wait_for(lambda: sharing._is_closed, 30)
        published.append(snapshot)

    monkeypatch.setattr(SharingService, "_publish", publish)
    sharing = b.yard.sharing
    sharing.on_snapshot_taken(SimpleNamespace(snapshot="first"))
    assert began.wait(30)
    sharing.on_snapshot_taken(SimpleNamespace(snapshot="skipped"))
    sharing.on_snapshot_taken(SimpleNamespace(snapshot="last"))

    sharing.close()

    assert published == ["first", "last"]


async def test_a_failure_to_publish_is_told_and_the_next_is_tried(b, monkeypatch):
    told, published = [], []

    def publish(sharing, snapshot):
        if snapshot != "second":
            raise ZeroDivisionError("a fault of ours")
        published.append(snapshot)

    monkeypatch.setattr(SharingService, "_publish", publish)
    sharing = b.yard.sharing
    monkeypatch.setattr(sharing, "_log", told.append)
    for name in ("first", "second"):
        sharing.on_snapshot_taken(SimpleNamespace(snapshot=SimpleNamespace(id=name) if name == "first" else name))
        assert sharing.flush(30)

    assert published == ["second"]
    assert told == ["Snapshot first could not be shared: a fault of ours"]
