"""An agent that keeps its changes out of the record: they are nobody's then, never another agent's."""

import asyncio

import pytest

from toolyard.linux import change_filter
from toolyard.snapshots.service.change_authors import Authors

pytestmark = pytest.mark.skipif(bool(change_filter.unsupported_reason()), reason=change_filter.unsupported_reason())

LATER = """
import os, threading, time
def plant():
    while not os.path.exists("go"):
        time.sleep(0.02)
    open("planted", "w").close()
threading.Thread(target=plant).start()
"""
UNREADABLE = """
import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
open("go", "w").close()
while not os.path.exists("done"):
    time.sleep(0.02)
"""


@pytest.fixture
def pair(team):
    folder = team.path / "project"
    folder.mkdir()
    (folder / "victim").write_text("of the user")
    team.work = lambda _: folder
    return team.open("agent_a"), team.open("agent_b")


async def authors_of(pair, path):
    for agent in pair:
        await agent.share()
    keeper = pair[0].yard.snapshots
    newest = keeper.store.list()[0]
    return keeper.calls.interval(0, newest.time_ns).authors_of(path)


async def test_what_a_session_changes_between_its_runs_is_not_the_work_of_whoever_runs_then(pair):
    a, b = pair
    await a.call("execute_python", code=LATER, session="s")
    await b.call("Bash", command="touch go; until [ -e planted ]; do sleep 0.02; done; sleep 0.2")

    assert await authors_of(pair, b"go") == {"agent_b"}
    assert await authors_of(pair, b"planted") <= {"agent_a"}


async def test_what_a_session_changes_between_its_runs_is_not_in_the_label_of_whoever_runs_then(pair):
    a, b = pair
    await b.write("of-b", "1")
    await a.call("execute_python", code=LATER, session="s")
    for agent in pair:
        await agent.share()
    asyncio.get_running_loop().call_later(0.5, (a.work / "go").touch)
    await b.call("Bash", command="until [ -e planted ]; do sleep 0.02; done; sleep 0.2")
    for agent in reversed(pair):
        await agent.share()

    newest, *_ = b.yard.snapshots.store.list()
    assert b"planted" in {entry.name for entry in b.yard.snapshots.store.show(newest.id)}
    assert newest.agent in {"", "agent_a"}


async def test_what_a_second_name_changes_is_not_the_work_of_one_without_a_complete_record(pair):
    a, b = pair
    hidden = "until [ -e go ]; do sleep 0.02; done; ln victim second; echo 1 >> second; touch done"
    await asyncio.gather(a.call("Bash", command=hidden), b.call("execute_python", code=UNREADABLE))

    assert await authors_of(pair, b"second") == {"agent_a"}
    assert await authors_of(pair, b"victim") <= {"agent_a"}


def test_a_session_counts_until_its_server_closes(tmp_path):
    with Authors(str(tmp_path / "state")) as record:
        record.record_session(record.begin("/r", "a", "execute_python", b""))
        began_ns = record.calls_since("/r", 0)[0].began_ns
        assert record.agents_with_sessions("/r", began_ns) == {"a"}
        assert (
            record.agents_with_sessions("/r", began_ns - 1)
            == record.agents_with_sessions("/other", began_ns)
            == set()
        )
        record.end_sessions("/r", "a")
        assert record.agents_with_sessions("/r", began_ns) == set()
