"""Commands of two agents at the same time in one folder: each file is news of the agent whose command changed it."""

import asyncio
from itertools import pairwise

import pytest

from toolyard.app.yard import Yard, YardOptions
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.linux import change_filter
from toolyard.snapshots.service.change_authors import Authors, ChangingCall, Interval

pytestmark = pytest.mark.skipif(bool(change_filter.unsupported_reason()), reason=change_filter.unsupported_reason())

MEET = "touch met/{me}; until [ -e met/{peer} ]; do sleep 0.02; done"
PART = "touch parted/{me}; until [ -e parted/{peer} ]; do sleep 0.02; done"
MEET_IN_PYTHON = """
import os, time
def meet(place):
    open(f"{{place}}/{me}", "w").close()
    while not os.path.exists(f"{{place}}/{peer}"):
        time.sleep(0.02)
meet("met")
{code}
meet("parted")
"""


@pytest.fixture
def pair(team):
    folder = team.path / "project"
    for name in ("met", "parted", "sub"):
        (folder / name).mkdir(parents=True)
    for name in ("changed-a", "changed-b", "removed-a", "removed-b", "moved-a", "moved-b", "both"):
        (folder / name).write_text("of the user")
    team.work = lambda _: folder
    return team.open("agent_a"), team.open("agent_b")


async def overlapping(pair, first, second):
    """Run both; each sees the other's beginning before it works, and ends when the other has worked."""
    a, b = pair
    done = await asyncio.gather(first(a, "a", "b"), second(b, "b", "a"))
    assert [each.structured.get("exit_code", 0) for each in done] == [0, 0], done


def in_shell(command):
    async def run(agent, me, peer):
        text = f"{MEET}; {command}; {PART}".replace("{me}", me).replace("{peer}", peer)
        return await agent.call("Bash", command=text)

    return run


def in_python(code, session=""):
    async def run(agent, me, peer):
        text = MEET_IN_PYTHON.format(me=me, peer=peer, code=code.replace("{me}", me))
        return await agent.call("execute_python", code=text, **({"session": session} if session else {}))

    return run


async def authors_of_all(pair):
    """The agents that are said to have changed each file, from a snapshot of now."""
    for agent in reversed(pair):
        await agent.share()
    found = {}
    keeper = pair[0].yard.snapshots
    snapshots = keeper.store.list()
    for newer, older in pairwise(snapshots):
        interval = keeper.calls.interval(older.time_ns, newer.time_ns)
        for change in keeper.store.diff(older.id, newer.id).changes:
            for path in {change.path, change.old_path} - {None}:
                found.setdefault(path.decode(), set()).update(interval.authors_of(path))
    return {path: {name[-1] for name in names} for path, names in found.items()}


EVERY_WAY = (
    "echo 1 > made-{me}; echo 2 >> changed-{me}; rm removed-{me}; mv moved-{me} moved-to-{me}; "
    "mkdir dir-{me}; (cd dir-{me} && echo 1 > inner && mkdir deep && cd deep && echo 1 > ../up); "
    "ln -s ../sub dir-{me}/link; echo 1 > dir-{me}/link/through-{me}; chmod 700 changed-{me}"
)


@pytest.mark.parametrize("second", ["shell", "python", "session"])
async def test_every_change_is_its_own_agents(pair, second):
    code = f"import subprocess; subprocess.run(['bash', '-c', {EVERY_WAY!r}], check=True)"
    runs = {"shell": in_shell(EVERY_WAY), "python": in_python(code), "session": in_python(code, "s")}
    await overlapping(pair, in_shell(EVERY_WAY), runs[second])

    found = await authors_of_all(pair)
    expected = {}
    for me in ("a", "b"):
        own = ("made-{}", "changed-{}", "removed-{}", "moved-{}", "moved-to-{}", "dir-{}/inner", "dir-{}/up")
        own += ("dir-{}/link", "sub/through-{}", "met/{}", "parted/{}")
        expected |= {name.format(me): {me} for name in own}
    folders = {"dir-a", "dir-b", "dir-a/deep", "dir-b/deep"}
    assert {path: names for path, names in found.items() if path not in folders} == expected


async def test_pythons_own_calls_are_its_agents(pair):
    code = "os.mkdir('p-{me}'); open('p-{me}/made-{me}', 'w').close(); os.rename('moved-{me}', 'p-{me}/moved')"
    await overlapping(pair, in_python(f"{code}; os.remove('changed-{{me}}')"), in_shell("echo 1 > made-{me}"))

    found = await authors_of_all(pair)
    mine = {"p-a/made-a", "p-a/moved", "moved-a", "changed-a", "met/a", "parted/a"}
    assert {path for path, names in found.items() if names == {"a"}} - {"p-a"} == mine
    assert {path for path, names in found.items() if names == {"b"}} == {"made-b", "met/b", "parted/b"}


async def test_a_file_that_both_changed_is_both_agents(pair):
    await overlapping(pair, in_shell("echo {me} >> both"), in_shell("echo {me} >> both"))

    assert (await authors_of_all(pair))["both"] == {"a", "b"}


async def test_a_command_in_the_background_and_another_agents_command_are_told_apart(pair):
    a, b = pair
    command = "echo 1 > early; until [ -e go ]; do sleep 0.02; done; echo 1 > late; cat held; rm held"
    started = await a.call("Bash", command=command, run_in_background=True)
    shell = a.yard.sandboxes.background_commands.get(started.structured["shell_id"])
    await b.call("Bash", command="until [ -e early ]; do sleep 0.02; done; echo 1 > mine; echo 1 > held; touch go")
    await b.call("Bash", command="until [ -e late ]; do sleep 0.02; done; echo 2 >> mine")
    assert await asyncio.to_thread(shell.ended.wait, 30)
    await b.call("Bash", command="echo 3 >> mine")

    found = await authors_of_all(pair)
    assert [found[path] for path in ("early", "late", "mine", "go")] == [{"a"}, {"a"}, {"b"}, {"b"}]


async def test_what_a_command_in_the_background_changed_is_known_while_it_runs(pair):
    a, b = pair
    started = await a.call("Bash", command="echo 1 > by-a; sleep 100", run_in_background=True)
    await b.call("Bash", command="until [ -e by-a ]; do sleep 0.02; done; echo 1 > by-b; sleep 0.5")

    found = await authors_of_all(pair)
    assert (found["by-a"], found["by-b"]) == ({"a"}, {"b"})
    a.yard.sandboxes.background_commands.get(started.structured["shell_id"]).kill()


def command(agent, changed=None, *, is_complete=True, began=0, ended=None):
    return ChangingCall(agent, "Bash", b"", began, ended, is_complete, 0, changed or {})


@pytest.mark.parametrize(
    ("calls", "authors"),
    [
        ([command("a", {b"x": (False, 5)}), command("b")], {"a"}),
        ([command("a", {b"x": (False, 5)}), command("b", {b"x": (False, 6)})], {"a", "b"}),
        ([command("a"), command("b")], set()),
        ([command("a")], {"a"}),  # by a second name of the file, for example
        ([command("a"), command("b", is_complete=False)], set()),  # the first may have hidden it
        ([command("a", is_complete=False), command("b", is_complete=False)], set()),
        ([command("a", {b"x": (False, 5)}), command("b", is_complete=False)], {"a"}),
        # It was touched before the interval, and by another agent within it.
        ([command("a", {b"x": (False, 1)}), command("b", {b"x": (False, 5)})], {"b"}),
        ([command("a", {b"x": (False, 1)}), command("b")], {"a"}),  # it may still be open
        # Everything beneath a folder, and a file in it.
        ([command("a", {b"": (True, 5)}), command("b", {b"x": (False, 5)})], {"b"}),
        ([command("a", {b"": (True, 5)}), command("b")], {"a"}),
        ([command("a", {b"": (False, 5)}), command("b")], set()),
        ([ChangingCall("a", "Write", b"x", 3, 4), command("b")], {"a"}),
        ([ChangingCall("a", "Write", b"x", 3, 4), command("b", {b"x": (False, 5)})], {"a", "b"}),
    ],
)
def test_whose_a_change_is(tmp_path, calls, authors):
    assert Interval(str(tmp_path), calls, until_ns=10, since_ns=3).authors_of(b"x") == authors


def test_the_record_is_bounded_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("toolyard.snapshots.service.change_authors._MOST_CHANGED", 100)
    with Authors(str(tmp_path / "state")) as record:
        numbers = [record.begin("/r", agent, "Bash", b"") for agent in ("a", "b")]
        for number in numbers:
            record.set_complete(number, is_complete=True)
            record.add_changes(number, [(b"%d" % i, False, i) for i in range(90)])
        calls = record.calls_since("/r", 0)
    assert [(call.agent, call.is_complete) for call in calls] == [("a", False), ("b", False)]
    assert sum(len(call.changed) for call in calls) == 50


def test_the_record_is_bounded_in_bytes_too(tmp_path, monkeypatch):
    monkeypatch.setattr("toolyard.snapshots.service.change_authors._MOST_BYTES", 1_000_000)
    with Authors(str(tmp_path / "state")) as record:
        for batch in range(40):
            number = record.begin("/r", "a", "Bash", b"")
            record.add_changes(number, [(b"%d-%d" % (batch, i) + b"x" * 3_000, False, i) for i in range(20)])
        newest = record.calls_since("/r", 0)[-1]
    assert len(newest.changed) == 20
    assert sum(file.stat().st_size for file in (tmp_path / "state").iterdir()) < 2_000_000


def test_a_path_that_is_told_again_counts_with_its_last_time(tmp_path):
    with Authors(str(tmp_path / "state")) as record:
        number = record.begin("/r", "a", "Bash", b"")
        record.add_changes(number, [(b"x", True, 5)])
        record.add_changes(number, [(b"x", False, 9), (b"y", False, 1)])
        (call,) = record.calls_since("/r", 0)
    assert call.changed == {b"x": (True, 9), b"y": (False, 1)}


def alone(tmp_path, agent):
    """A Yard in a folder of the user's, from a configuration with that one agent."""
    (tmp_path / "project").mkdir(exist_ok=True)
    (tmp_path / "toolyard.yaml").write_text(f"agents:\n  - id: {agent}\n")
    config = load_config(str(tmp_path / "toolyard.yaml"))
    settings = Settings.from_environment({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    return Yard.open(YardOptions(str(tmp_path / "project"), config, settings=settings, agent=agent))


def test_the_changes_of_a_single_agent_are_recorded_once_another_has_worked_in_its_folder(tmp_path):
    async def run(yard):
        await yard.dispatch(Call("Bash", {"command": "touch a-file"}, "test", yard.agent))
        return yard.sandboxes.records_changes

    with alone(tmp_path, "first") as yard:
        assert asyncio.run(run(yard)) is False
    with alone(tmp_path, "second") as yard:
        assert asyncio.run(run(yard)) is True
    with alone(tmp_path, "first") as yard:
        assert asyncio.run(run(yard)) is True
