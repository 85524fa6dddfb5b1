"""Two agents that work in one folder: each change is news of the agent whose call made it, and of no other."""

import asyncio
from pathlib import Path

import pytest

from toolyard.snapshots import DamagedObjectError, SnapshotStore, snapshot_store
from toolyard.snapshots.service.change_authors import ChangingCall, Interval
from toolyard.snapshots.service.format import HistoryEntry


@pytest.fixture
def pair(team):
    """Agents a and b in one folder outside the layout, as with `cwd: project` in both backends."""
    folder = team.path / "project"
    folder.mkdir()
    team.work = lambda _: folder
    return team.open("agent_a"), team.open("agent_b")


def news(agent):
    return "\n".join(agent.yard.sharing.notifications.new_lines())


async def share(*agents):
    for agent in agents:
        await agent.share()


async def test_what_an_agent_wrote_itself_is_not_news_of_its_peer(pair):
    a, b = pair
    await a.write("a.txt", "by a")
    await b.write("b.txt", "by b")
    await share(a, b)

    assert news(b) == f"[agent_a changed 1 file: {a.yard.sharing.prefix}/agent_a/a.txt]"
    assert news(a) == f"[agent_b changed 1 file: {a.yard.sharing.prefix}/agent_b/b.txt]"


async def test_what_was_there_before_is_no_news_of_the_agent_that_shares_first(pair, team):
    a, b = pair
    (team.path / "project" / "old.txt").write_text("of the user")
    await a.write("a.txt", "by a")
    await share(a)

    assert news(b) == f"[agent_a changed 1 file: {a.yard.sharing.prefix}/agent_a/a.txt]"


async def test_a_file_that_both_changed_is_news_for_both(pair):
    a, b = pair
    await a.write("x.txt", "1")
    await share(a, b)
    news(a), news(b)
    await a.call("Edit", file_path="x.txt", old_string="1", new_string="2")
    await b.call("Read", file_path="x.txt")
    await b.call("Edit", file_path="x.txt", old_string="2", new_string="3")
    await share(a, b)

    assert "agent_a changed 1 file" in news(b)
    assert "agent_b changed 1 file" in news(a)


@pytest.mark.parametrize("first", [0, 1])
async def test_what_a_command_changed_is_its_agents_whoever_takes_the_snapshot(pair, first):
    a, b = pair
    await a.call("Bash", command="echo 1 > made.txt")
    await b.call("Bash", command="echo 1 > other.txt")
    await share(pair[first], pair[1 - first])

    assert "agent_a changed 1 file" in (of_a := news(b))
    assert "made.txt" in of_a
    assert "agent_b changed 1 file" in (of_b := news(a))
    assert "other.txt" in of_b


@pytest.mark.parametrize(("ended_after", "authors"), [(-1, {"a", "b"}), (1, {"a"})])
def test_a_command_that_changes_a_file_after_another_agents_write_shares_the_change(tmp_path, ended_after, authors):
    (tmp_path / "x.txt").write_text("by b")
    changed_ns = (tmp_path / "x.txt").stat().st_ctime_ns
    write = ChangingCall("a", "Write", b"x.txt", changed_ns - 10, changed_ns + ended_after)
    command = ChangingCall("b", "Bash", b"", changed_ns - 20, None)

    assert Interval(str(tmp_path), [write, command], changed_ns + 5).authors_of(b"x.txt") == authors


async def test_a_command_in_the_background_owns_what_it_changes_until_it_ends(pair):
    a, b = pair
    started = await a.call(
        "Bash", command="until [ -e go ]; do sleep 0.05; done; echo 1 > late.txt", run_in_background=True
    )
    await share(a, b)
    news(a), news(b)
    await b.write("go", "")
    shell = a.yard.sandboxes.background_commands.get(started.structured["shell_id"])
    assert await asyncio.to_thread(shell.ended.wait, 30)
    await share(b, a)

    assert "late.txt" in (of_a := news(b))
    assert "/go" not in of_a
    assert "late.txt" not in news(a)


async def test_a_change_from_outside_is_nobodys(pair):
    a, b = pair
    await a.write("a.txt", "1")
    await b.write("b.txt", "1")
    a.yard.snapshots.flush()
    await share(a, b)
    news(a), news(b)
    (a.work / "user.txt").write_text("by the user")
    a.yard.snapshots.schedule_snapshot("a change from outside")
    a.yard.snapshots.flush()
    await share(b)

    assert "user.txt" not in news(a) + news(b)


async def test_a_snapshot_that_a_watcher_asked_for_names_the_agent_at_work(pair):
    a, b = pair
    await b.write("b.txt", "1")
    b.yard.snapshots.flush()
    await a.call("Bash", command="echo 1 > made.txt")
    b.yard.snapshots.schedule_snapshot("a change from outside")
    b.yard.snapshots.flush()

    with SnapshotStore(b.yard.home.snapshots_folder) as store:
        newest = store.list()[0]
    assert (newest.agent, newest.reason) == ("agent_a", "after Bash")


async def test_a_snapshot_after_a_call_of_ones_own_that_holds_a_peers_change_alone_names_the_peer(pair):
    a, b = pair
    await a.call("Bash", command="echo 1 > made.txt")
    await b.write("b.txt", "1")
    b.yard.snapshots.create()
    await b.call("Bash", command="echo 1 > other.txt")
    a.yard.snapshots.flush()

    with SnapshotStore(a.yard.home.snapshots_folder) as store:
        newest = store.list()[0]
    assert newest.agent == "agent_b"


def newest_of(agent):
    with SnapshotStore(agent.yard.home.snapshots_folder) as store:
        return store.list()[0]


async def both_based(pair):
    """Both have changed something before, and a snapshot holds it."""
    a, b = pair
    await a.write("a.txt", "1")
    await b.write("b.txt", "1")
    for agent in pair:
        agent.yard.snapshots.flush()
    await share(a, b)


async def test_the_snapshot_before_a_servers_first_change_names_the_agent_whose_changes_it_holds(pair):
    a, b = pair
    await a.write("first.txt", "1")
    a.yard.snapshots.flush()
    await a.write("second.txt", "1")
    await b.write("b.txt", "1")

    with SnapshotStore(b.yard.home.snapshots_folder) as store:
        baseline = store.list()[0]
    assert (baseline.agent, baseline.reason) == ("agent_a", "before a change")


async def test_a_snapshot_with_changes_of_both_names_both_in_the_order_they_came_to_the_folder(pair):
    a, b = pair
    await both_based(pair)
    await b.call("Bash", command="echo 1 > made.txt")
    await a.write("more.txt", "1")
    b.yard.snapshots.schedule_snapshot("Bash")
    b.yard.snapshots.flush()

    newest = newest_of(b)
    assert (newest.agent, newest.reason) == ("agent_a, agent_b", "after Bash, Write")
    listed = (await a.call("snapshot_list")).structured["snapshots"][0]
    assert (listed["id"], listed["agent"]) == (newest.id, "agent_a, agent_b")
    assert "agent_a, agent_b: after Bash, Write" in HistoryEntry(newest, 2).line()


async def test_a_snapshot_on_demand_and_one_before_a_restore_name_the_agent_whose_changes_they_hold(pair):
    a, b = pair
    await both_based(pair)
    old = newest_of(a)
    await a.write("more.txt", "1")
    b.yard.snapshots.create()
    assert (newest_of(b).agent, newest_of(b).reason) == ("agent_a", "on demand")

    await a.write("most.txt", "1")
    await b.call("snapshot_restore", snapshot=old.id)
    with SnapshotStore(b.yard.home.snapshots_folder) as store:
        before = next(each for each in store.list() if each.reason.startswith("before restoring"))
    assert before.agent == "agent_a"


async def test_a_snapshot_with_the_users_changes_alone_names_no_agent(pair):
    a, b = pair
    await both_based(pair)
    (a.work / "user.txt").write_text("by the user")
    a.yard.snapshots.schedule_snapshot("a change from outside")
    a.yard.snapshots.flush()

    newest = newest_of(a)
    assert (newest.agent, newest.reason) == ("", "after a change from outside")
    assert b.yard.snapshots.create().snapshot == newest


async def test_a_change_without_an_author_adds_no_name(pair):
    a, b = pair
    await both_based(pair)
    (a.work / "user.txt").write_text("by the user")
    await b.write("more.txt", "1")
    a.yard.snapshots.create()

    assert newest_of(a).agent == "agent_b"


async def test_a_snapshot_is_taken_under_the_servers_name_where_the_one_before_is_damaged(pair, monkeypatch):
    a, b = pair
    await both_based(pair)
    await b.write("more.txt", "1")

    def damaged(*_):
        raise DamagedObjectError(b"1", "gone")
        yield

    monkeypatch.setattr(snapshot_store, "compare_trees", damaged)
    taken = a.yard.snapshots.create()

    assert (taken.changed, taken.snapshot.agent) == (True, "agent_a")


async def test_a_call_that_changed_nothing_is_not_named(pair):
    a, b = pair
    await both_based(pair)
    await a.call("Bash", command="true")
    await b.write("more.txt", "1")
    a.yard.snapshots.flush()

    assert newest_of(a).agent == "agent_b"


async def test_a_folder_of_the_file_that_an_agent_wrote_in_it_does_not_hide_the_agent(pair):
    a, b = pair
    await both_based(pair)
    await b.write("new/deep/x.txt", "1")
    a.yard.snapshots.create()

    assert newest_of(a).agent == "agent_b"


async def test_only_the_agents_own_snapshots_are_labelled_anew(pair):
    a, _ = pair
    await both_based(pair)
    await a.write("more.txt", "1")
    taken = a.yard.snapshots.create(agent="", reason="of the user")

    assert (taken.snapshot.agent, taken.snapshot.reason) == ("", "of the user")


async def test_an_agent_in_its_own_folder_keeps_no_list_of_authors(a):
    await a.write("a.txt", "1")
    await share(a)

    assert not list(Path(a.yard.home.state).glob("sharing/authors*"))


async def test_an_agent_in_its_own_folder_is_named_for_what_the_user_changed_as_well(a):
    await a.write("a.txt", "1")
    a.yard.snapshots.flush()
    (a.work / "user.txt").write_text("by the user")
    a.yard.snapshots.schedule_snapshot("a change from outside")
    a.yard.snapshots.flush()

    assert newest_of(a).agent == "agent_a"
