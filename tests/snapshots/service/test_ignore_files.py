"""Ignore rules that an agent wrote keep nothing of the user's from being undone."""

import asyncio
import os

import pytest

from toolyard.core.calls import Call
from toolyard.snapshots.archive.ignore_files import record_accepted

BASH = "printf '*\\n' > .toolyardignore; mkdir -p sub; printf '*\\n' > sub/.toolyardignore"


async def call(yard, tool, /, **arguments):
    return await yard.dispatch(Call(tool, arguments, "test", session="s"))


async def write_rules(yard, name):
    await call(yard, "Write", file_path=name, content="*\n")


async def by_bash(yard):
    await call(yard, "Bash", command=BASH)


async def by_write(yard):
    await write_rules(yard, ".toolyardignore")
    await write_rules(yard, "sub/.toolyardignore")


async def by_rename(yard):
    await write_rules(yard, "harmless.txt")
    await call(yard, "Bash", command="cp harmless.txt sub/.toolyardignore; mv harmless.txt .toolyardignore")


@pytest.mark.parametrize("written", [by_bash, by_write, by_rename])
async def test_rules_of_one_session_do_not_hide_what_the_user_edits_before_the_next(spot, written):
    spot.write("sub/b.txt", "old")
    first = spot.yard(snapshots={"watch": False}, mode="bypassPermissions")
    await written(first)
    first.close()
    spot.write("a.txt", "a week of work")
    spot.write("sub/b.txt", "another week")
    spot.write("sub/new.txt", "and a new file")
    second = spot.yard(snapshots={"watch": False}, mode="bypassPermissions")
    await call(second, "Bash", command="rm -rf a.txt sub/b.txt sub/new.txt")
    store = second.snapshots.store
    before = next(each for each in store.list() if each.reason == "before a change")
    assert store.read(before.id, "a.txt") == b"a week of work"
    assert store.read(before.id, "sub/b.txt") == b"another week"
    assert store.read(before.id, "sub/new.txt") == b"and a new file"


async def test_an_accepted_file_counts_as_it_was_accepted_whatever_an_agent_makes_of_it(spot, tmp_path):
    spot.write(".toolyardignore", "big/\n")
    spot.write("big/data", "huge")
    yard = spot.yard(snapshots={"watch": False}, mode="bypassPermissions")
    record_accepted(yard.snapshots.store.folder, str(spot.root), b"", b"big/\n")
    for command in ("printf 'a.txt\\n!big/\\n' > .toolyardignore", "mv .toolyardignore big/", "rm -rf big"):
        await call(yard, "Bash", command=command)
        taken = yard.snapshots.create(reason="test").snapshot
        names = {os.fsdecode(entry.name) for entry in yard.snapshots.store.show(taken.id)}
        assert "a.txt" in names
        assert "big" not in names


async def test_a_file_without_effect_is_reported_once_with_the_way_to_accept_it(spot):
    yard = spot.yard(snapshots={"watch": False})
    spot.write("sub/.toolyardignore", "*\n")
    first = await call(yard, "Write", file_path="b.txt", content="b")
    assert "sub/.toolyardignore" in first.text
    assert "toolyard snapshot ignore" in first.text
    second = await asyncio.gather(call(yard, "Write", file_path="c.txt", content="c"))
    assert "toolyardignore" not in second[0].text


def test_a_damaged_record_of_accepted_rules_says_what_to_do(spot):
    keeper = spot.keeper()
    keeper.create(reason="first")
    (spot.store / "ignore.json").write_text("[1, 2")
    with pytest.raises(Exception, match=r"ignore\.json, cannot be read") as raised:
        keeper.create(reason="second")
    assert "snapshot ignore --accept" in raised.value.hint
