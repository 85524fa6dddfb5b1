"""Bringing a peer's files into one's own workspace: nothing is lost, everything can be undone, and it is recorded."""

import os
import stat

import pytest

from toolyard.config.loader import load_config
from toolyard.core.errors import SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.permission_modes import PermissionMode
from toolyard.snapshots.archive.ignore_files import record_accepted
from toolyard.tools.shared_merge import PeerMerge

from .conftest import names, start


async def test_a_new_file_is_added_with_its_mode(a, b):
    await b.write("tools_dir/run.sh", "#!/bin/sh\n")
    (b.work / "tools_dir/run.sh").chmod(0o755)
    await b.share()

    done = await a.merge("agent_b", "tools_dir")

    assert names(done["added"]) == ["tools_dir/run.sh"]
    assert (a.work / "tools_dir/run.sh").read_text() == "#!/bin/sh\n"
    assert stat.S_IMODE((a.work / "tools_dir/run.sh").stat().st_mode) == 0o755


async def test_a_file_that_only_the_peer_changed_is_taken(a, b):
    await start(a, b, x="one\ntwo\n")
    await b.write("x.txt", "one\nTWO\n")
    await b.share()

    done = await a.merge("agent_b", "x.txt")

    assert names(done["merged"]) == ["x.txt"]
    assert (a.work / "x.txt").read_text() == "one\nTWO\n"


async def test_a_mode_that_only_the_peer_changed_is_taken_and_one_of_ours_stays(a, b):
    await start(a, b, x="1\n", y="1\n")
    (b.work / "x.txt").chmod(0o755)
    (b.work / "y.txt").chmod(0o755)
    (a.work / "y.txt").chmod(0o600)
    await b.share()

    done = await a.merge("agent_b", "**")

    assert (names(done["merged"]), done["undo"]) == (["x.txt"], ["x.txt"])
    assert [stat.S_IMODE((a.work / name).stat().st_mode) for name in ("x.txt", "y.txt")] == [0o755, 0o600]


async def test_changes_of_both_are_merged_time_and_again(a, b):
    await start(a, b, x="1\n2\n3\n4\n5\n6\n7\n")
    expected = [str(number) for number in range(1, 8)]
    for turn in range(3):
        theirs = (b.work / "x.txt").read_text().splitlines()
        theirs[-1] = expected[-1] = f"b{turn}"
        await b.call("Read", file_path="x.txt")
        await b.write("x.txt", "\n".join(theirs) + "\n")
        await b.share()
        ours = (a.work / "x.txt").read_text().splitlines()
        ours[turn] = expected[turn] = f"a{turn}"
        await a.write("x.txt", "\n".join(ours) + "\n")

        done = await a.merge("agent_b", "x.txt")

        assert names(done["merged"]) == ["x.txt"], done
        assert (a.work / "x.txt").read_text().splitlines() == expected


async def test_work_goes_to_and_fro_without_conflicts(a, b):
    await start(a, b, x="1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    await a.write("x.txt", "A\n2\n3\n4\n5\n6\n7\n8\n9\n")
    await b.write("x.txt", "1\n2\n3\n4\nB\n6\n7\n8\n9\n")
    await a.share()
    assert names((await b.merge("agent_a", "x.txt"))["merged"]) == ["x.txt"]
    await b.write("x.txt", "A\n2\n3\n4\nB\n6\n7\n8\nBB\n")
    await b.share()
    await a.write("x.txt", "AA\n2\n3\n4\n5\n6\n7\n8\n9\n")

    done = await a.merge("agent_b", "x.txt")

    assert names(done["merged"]) == ["x.txt"], done
    assert (a.work / "x.txt").read_text() == "AA\n2\n3\n4\nB\n6\n7\n8\nBB\n"


async def test_a_file_the_peer_removed_goes_only_when_it_is_unchanged_here(a, b):
    await start(a, b, x="1\n", y="1\n")
    await a.write("y.txt", "changed\n")
    (b.work / "x.txt").unlink()
    (b.work / "y.txt").unlink()
    await b.share()

    done = await a.merge("agent_b", "**")

    assert (names(done["removed"]), names(done["kept"])) == (["x.txt"], ["y.txt"])
    assert sorted(path.name for path in a.work.glob("*.txt")) == ["y.txt"]


async def test_files_that_never_were_the_peers_are_left_alone(a, b):
    await a.write("own.txt", "mine")
    await b.write("x.txt", "1")
    await b.share()

    done = await a.merge("agent_b", "**")

    assert names(done["added"]) == ["x.txt"]
    assert (done["removed"], done["kept"]) == ([], [])
    assert (a.work / "own.txt").read_text() == "mine"


async def test_a_file_the_peer_renamed_takes_our_changes_along(a, b):
    await start(a, b, x="1\n2\n")
    await a.write("x.txt", "1\n2\n3\n")
    (b.work / "x.txt").rename(b.work / "moved.txt")
    await b.share()

    done = await a.merge("agent_b", "**")

    assert names(done["merged"]) == ["moved.txt"]
    assert (a.work / "moved.txt").read_text() == "1\n2\n3\n"
    assert not (a.work / "x.txt").exists()


async def test_a_rehearsal_changes_nothing(a, b):
    await b.write("x.txt", "1")
    await b.share()

    done = await a.merge("agent_b", "x.txt", dry_run=True)

    assert names(done["added"]) == ["x.txt"]
    assert not (a.work / "x.txt").exists()
    assert (await a.call("shared_list", provenance=True)).structured["provenance"] == []


async def test_a_merge_is_undone_by_restoring_the_paths_it_names_and_nothing_else_is(a, b):
    await start(a, b, x="1\n", gone="1\n", moved="1\n2\n")
    await a.write("own.txt", "mine")
    await a.write("moved.txt", "1\n2\n3\n")
    await b.write("x.txt", "2\n")
    await b.write("new/deep/y.txt", "new\n")
    (b.work / "gone.txt").unlink()
    (b.work / "moved.txt").rename(b.work / "there.txt")
    await b.share()
    done = await a.merge("agent_b", "**")
    await a.write("own.txt", "worked on")

    await a.call("snapshot_restore", snapshot=done["before"], paths=done["undo"])

    assert done["undo"] == ["gone.txt", "moved.txt", "new", "there.txt", "x.txt"]
    assert {path.name: path.read_text() for path in a.work.glob("*.txt")} == {
        "x.txt": "1\n",
        "gone.txt": "1\n",
        "moved.txt": "1\n2\n3\n",
        "own.txt": "worked on",
    }
    assert not (a.work / "new").exists()


async def test_the_result_says_how_to_undo_it_and_only_where_something_was_done(a, b):
    await b.write("x.txt", "1")
    await b.share()
    paths = {"peer": "agent_b", "paths": ["x.txt"]}

    rehearsed = await a.call("shared_merge", **paths, dry_run=True)
    done = await a.call("shared_merge", **paths)
    again = await a.call("shared_merge", **paths)

    before = done.structured["before"]
    assert f'To undo it, restore snapshot {before} with paths ["x.txt"].' in done.text
    assert "undo" not in rehearsed.text + again.text
    assert (rehearsed.structured["undo"], again.structured["undo"]) == ([], [])


async def test_what_went_beside_a_file_is_undone_too(a, b):
    (b.work / "x.bin").write_bytes(b"\0one")
    (a.work / "x.bin").write_bytes(b"\0ours")
    await b.share()

    done = await a.merge("agent_b", "x.bin")

    assert done["undo"] == ["x.bin.from-agent_b"]


async def test_a_file_whose_name_is_not_utf8_is_told_and_the_others_are_merged(a, b):
    (b.work / os.fsdecode(b"od\xffd.txt")).write_text("theirs")
    await b.write("plain.txt", "theirs")
    await b.share()

    done = await a.merge("agent_b", "*.txt")

    (kept,) = done["kept"]
    assert (kept["path"], "Unicode" in kept["why"]) == (r"od\xffd.txt", True)
    assert (names(done["added"]), done["undo"]) == (["plain.txt"], ["plain.txt"])


async def test_where_files_came_from_is_recorded(a, b):
    await start(a, b, x="1\n")
    snapshot = (await a.call("shared_list")).structured["peers"][0]["snapshot"]

    (origin,) = (await a.call("shared_list", provenance=True)).structured["provenance"]

    assert (origin["path"], origin["peer"], origin["snapshot"], origin["outcome"]) == (
        "x.txt",
        "agent_b",
        snapshot,
        "added",
    )
    assert len(origin["digest"]) == 64


async def test_a_file_that_the_policy_does_not_let_us_write_is_kept(team, a, b):
    (b.work / "toolyard.yaml").write_text("toolyard: {}\n")
    await b.write("x.txt", "1")
    await b.share()

    done = await a.merge("agent_b", "**")

    assert names(done["added"]) == ["x.txt"]
    assert names(done["kept"]) == ["toolyard.yaml"]
    assert not (a.work / "toolyard.yaml").exists()


async def test_an_agent_that_may_only_read_merges_nothing(team, b):
    a = team.open("agent_a", mode=PermissionMode.PLAN)
    await b.write("x.txt", "1")
    await b.share()

    done = await a.merge("agent_b", "x.txt")

    assert names(done["kept"]) == ["x.txt"]
    assert not (a.work / "x.txt").exists()


async def test_an_agent_that_has_to_ask_writes_nothing_unasked(team, b):
    a = team.open("agent_a", mode=PermissionMode.DEFAULT)
    await b.write("x.txt", "1")
    await b.share()

    with pytest.raises(SecurityError, match="No one can approve it"):
        await a.merge("agent_b", "x.txt")

    assert not (a.work / "x.txt").exists()


async def test_something_that_no_snapshot_holds_is_not_overwritten(a, b):
    record_accepted(a.yard.snapshots.store.folder, str(a.work), b"", b"ignored.txt\n")
    (a.work / "ignored.txt").write_text("ours")
    await b.write("ignored.txt", "theirs")
    await b.share()

    done = await a.merge("agent_b", "ignored.txt")

    assert names(done["kept"]) == ["ignored.txt"]
    assert (a.work / "ignored.txt").read_text() == "ours"


async def test_a_link_in_our_workspace_is_not_written_through(team, a, b):
    (team.path / "outside").mkdir()
    (a.work / "deep").symlink_to(team.path / "outside")
    await b.write("deep/x.txt", "1")
    await b.share()

    done = await a.merge("agent_b", "deep/x.txt")

    assert names(done["kept"]) == ["deep/x.txt"]
    assert os.listdir(team.path / "outside") == []


async def test_links_of_the_peer_are_not_taken_over(a, b):
    (b.work / "link").symlink_to("/etc/passwd")
    await b.write("x.txt", "1")
    await b.share()

    done = await a.merge("agent_b", "**")

    assert names(done["kept"]) == ["link"]
    assert not (a.work / "link").is_symlink()


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("x.py", ["x.py"]),
        ("*.py", ["deep/x.py", "x.py"]),
        ("deep", ["deep/x.py", "deep/y.txt"]),
        ("deep/*.txt", ["deep/y.txt"]),
        ("shared/agent_b/deep/y.txt", ["deep/y.txt"]),
        ("./x.py", ["x.py"]),
        ("**/*.{py,txt}", ["deep/x.py", "deep/y.txt", "x.py"]),
    ],
)
async def test_files_are_chosen_by_path_folder_or_glob(a, b, pattern, taken):
    for name in ("x.py", "deep/x.py", "deep/y.txt"):
        await b.write(name, name)
    await b.share()

    assert names((await a.merge("agent_b", pattern))["added"]) == taken


@pytest.mark.parametrize("pattern", ["nowhere.txt", "*.zip"])
async def test_a_choice_of_nothing_is_told(a, b, pattern):
    await b.write("x.txt", "1")
    await b.share()

    with pytest.raises(ToolError, match="no matching files"):
        await a.merge("agent_b", pattern)


@pytest.mark.parametrize("pattern", ["../x.txt", "/etc/passwd"])
async def test_a_path_that_is_not_the_peers_is_refused(a, b, pattern):
    await b.write("x.txt", "1")
    await b.share()

    with pytest.raises(ValidationError):
        await a.merge("agent_b", pattern)


async def test_a_file_marked_read_only_is_kept(a, b):
    await start(a, b, x="1\n")
    (a.work / "x.txt").chmod(0o444)
    await b.write("x.txt", "2\n")
    await b.share()

    done = await a.merge("agent_b", "x.txt")

    assert names(done["kept"]) == ["x.txt"]
    assert (a.work / "x.txt").read_text() == "1\n"


async def test_merging_from_oneself_is_refused(a):
    with pytest.raises(ToolyardError):
        await a.merge("agent_a", "**")


async def test_a_rehearsal_tells_what_the_policy_would_refuse(a, b):
    (b.work / "toolyard.yaml").write_text("toolyard: {}\n")
    await b.share()

    done = await a.merge("agent_b", "**", dry_run=True)

    assert names(done["kept"]) == ["toolyard.yaml"]


async def test_where_one_file_has_to_be_asked_about_no_other_is_written_before(team):
    config = team.path / "toolyard.yaml"
    config.write_text(config.read_text() + "permissions: {ask: ['Write(z.lock)']}\n")
    team.config = load_config(str(config))
    a, b = team.open("agent_a"), team.open("agent_b")
    (b.work / "a.txt").write_text("1")
    (b.work / "z.lock").write_text("1")
    await b.share()

    with pytest.raises(SecurityError, match="No one can approve it"):
        await a.merge("agent_b", "**")

    assert not (a.work / "a.txt").exists()


async def test_a_merge_that_is_stopped_half_way_records_what_it_has_merged(a, b, monkeypatch):
    for name in ("1.txt", "2.txt", "3.txt"):
        await b.write(name, name)
    await b.share()
    real = PeerMerge._write_item

    def stopped(merge, item, reader, written):
        real(merge, item, reader, written)
        if item.path == b"2.txt":
            merge._ctx.budget.cancelled.set()

    monkeypatch.setattr(PeerMerge, "_write_item", stopped)

    with pytest.raises(ToolError, match="stopped"):
        await a.merge("agent_b", "**")

    recorded = (await a.call("shared_list", provenance=True)).structured["provenance"]
    assert sorted(names(recorded)) == ["1.txt", "2.txt"] == sorted(path.name for path in a.work.glob("*.txt"))
