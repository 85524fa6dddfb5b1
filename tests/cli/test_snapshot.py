"""`toolyard snapshot` as a user runs it."""

import contextlib
import json
import os
from datetime import datetime

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.cli.snapshot import output
from toolyard.core.errors import ToolyardError


def test_a_snapshot_is_taken_once_and_listed_with_what_it_changed(place):
    assert "no snapshot yet" in place.run("list")
    assert place.json("list") == []
    first = place.json("create", "--reason", "before")
    assert (first["changed"], first["files"], first["reason"]) == (True, 1, "before")
    assert f"since snapshot {first['id']}" in place.run("create")
    (place.root / "b.txt").write_text("b")
    second = place.json("create")
    listed = place.json("list")
    assert [(each["id"], each["changes"]) for each in listed] == [(second["id"], 1), (first["id"], None)]
    lines = place.run("list", "--limit", "1").splitlines()
    assert len(lines) == 1
    assert all(word in lines[0] for word in (second["id"], "2 files", "1 change", "by hand: on demand"))


def test_a_snapshot_that_takes_a_while_is_told_once_where_there_is_no_terminal(place, monkeypatch):
    monkeypatch.setattr(output, "_QUIET_SECONDS", -1)
    assert place.run("create", only="stderr") == "Taking a snapshot ...\n"
    (place.root / "b.txt").write_text("b")
    assert place.json("create")["changed"]
    monkeypatch.setenv("HOME", str(place.root))
    assert place.run("create", only="stderr") == f"Taking a snapshot of {place.root}, your home folder ...\n"


def test_the_list_tells_the_local_time_of_what_is_older_than_an_hour(place, monkeypatch):
    place.run("create")
    (place.root / "b.txt").write_text("b")
    newest = place.json("create")
    taken = datetime.fromisoformat(newest["time"]).astimezone().strftime("%Y-%m-%d %H:%M")
    assert not any(taken in line for line in place.run("list").splitlines())
    monkeypatch.setattr(output, "_RECENT_SECONDS", 0)
    assert taken in place.run("list").splitlines()[0]


def test_the_list_tells_only_the_snapshots_in_which_a_path_changed(place):
    ids = []
    for name in ("a.txt", "src/x.py", "a.txt", "src/y.py"):
        (place.root / name).parent.mkdir(exist_ok=True)
        with (place.root / name).open("a") as file:
            file.write("more\n")
        ids.append(place.json("create")["id"])

    def listed(*words):
        return [ids.index(each["id"]) for each in place.json("list", *words)]

    assert (listed("--path", "a.txt"), listed("--path", "src")) == ([2, 0], [3, 1])
    assert listed("--path", str(place.root / "a.txt"), "--limit", "1") == [2]
    assert listed("--path", "src/x.py") == [1]
    assert listed("--path", "nothing") == []
    assert "nothing did not change in any snapshot." in place.run("list", "--path", "nothing")


def test_a_diff_is_unified_and_coloured_in_a_terminal(place):
    place.run("create")
    (place.root / "a.txt").write_text("one\n2\n")
    (place.root / "b.bin").write_bytes(b"\0\1")
    plain = place.run("diff")
    assert "M a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n" in plain
    assert "A b.bin\nbinary: 2 bytes\n" in plain
    assert "\x1b[32m+2\x1b[0m" in place.run("diff", color=True)
    assert place.run("diff", "--stat").splitlines() == [
        "M a.txt  +1 -1",
        "A b.bin  binary: 2 bytes",
        "2 paths changed, +1 -1",
    ]
    assert [each["path"] for each in place.json("diff", "--path", "b.bin")["changes"]] == ["b.bin"]


def test_each_kind_of_change_has_its_colour_in_a_terminal(place):
    for name in ("gone.txt", "old.txt", "mode.txt"):
        (place.root / name).write_text(f"the text of {name}\n" * 3)
    (place.root / "mode.txt").chmod(0o644)
    place.run("create")
    (place.root / "gone.txt").unlink()
    (place.root / "old.txt").rename(place.root / "renamed.txt")
    (place.root / "mode.txt").chmod(0o600)
    (place.root / "a.txt").write_text("one\n2\n")
    (place.root / "new.txt").write_text("new")

    shown = place.run("diff", color=True)

    colours = {"M": 33, "D": 31, "A": 32, "R": 36, "m": 35}
    assert {
        mark: f"\x1b[{colour}m\x1b[1m{mark}\x1b[0m" in shown for mark, colour in colours.items()
    } == dict.fromkeys(colours, True)
    assert "\x1b[31m-two\x1b[0m" in shown
    assert "\x1b[36m@@ -1,2 +1,2 @@\x1b[0m" in shown
    assert "\x1b" not in place.run("diff")


def in_a_terminal(command):
    """All that a terminal is sent, which is little enough to wait in it."""
    ours, theirs = os.openpty()
    sent = b""
    try:
        with open(theirs, "w") as terminal, contextlib.redirect_stdout(terminal):
            toolyard.main(command, standalone_mode=False)
        with contextlib.suppress(OSError):  # its other end is closed: that was all
            while piece := os.read(ours, 100_000):
                sent += piece
    finally:
        os.close(ours)
    return sent


def in_a_file(command, path):
    with path.open("w") as file, contextlib.redirect_stdout(file):
        toolyard.main(command, standalone_mode=False)
    return path.read_bytes()


def test_a_terminal_gets_colours_and_a_file_gets_none(place, tmp_path):
    place.run("create")
    (place.root / "a.txt").write_text("one\n2\n")
    command = ["snapshot", "diff", "--workspace", str(place.root), "--state", str(place.state)]
    shown, said = in_a_terminal(command), in_a_file(command, tmp_path / "said")
    assert (b"\x1b[32m+2" in shown, b"\n+2\n" in said, b"\x1b" in said) == (True, True, False)


def test_a_terminal_acts_on_nothing_that_a_file_holds_and_a_file_gets_it_as_it_was(place, tmp_path):
    data = "\tone\x1b]0;title\x07\r\ntwo\x9b31m\rhidden\u202e\n".encode()
    (place.root / "a.txt").write_bytes(data)
    place.run("create")
    command = ["snapshot", "show", "latest", "a.txt", "--workspace", str(place.root), "--state", str(place.state)]
    shown = b"\tone\\x1b]0;title\\x07\ntwo\\x9b31m\\rhidden\\u202e\n"
    # A terminal's own line ends, and its tab, may be written in more than one way.
    assert in_a_terminal(command).replace(b"\r\n", b"\n").expandtabs() == shown.expandtabs()
    assert in_a_file(command, tmp_path / "said") == data


def test_a_mode_that_changed_with_the_content_is_told_beside_it(place):
    (place.root / "a.txt").chmod(0o644)
    (place.root / "b.txt").write_text("b")
    (place.root / "b.txt").chmod(0o644)
    place.run("create")
    (place.root / "a.txt").write_text("one\n2\n")
    (place.root / "a.txt").chmod(0o755)
    (place.root / "b.txt").chmod(0o600)
    assert "M a.txt  mode 0644 → 0755\n--- a/a.txt\n" in place.run("diff")
    assert place.run("diff", "--stat").splitlines()[:2] == [
        "M a.txt  mode 0644 → 0755  +1 -1",
        "m b.txt  mode 0644 → 0600",
    ]
    changes = place.json("diff")["changes"]
    assert [(each["old_mode"], each["mode"]) for each in changes] == [("0644", "0755"), ("0644", "0600")]


def test_what_git_keeps_is_one_line_unless_all_is_asked_for(place):
    git = place.root / ".git"
    git.mkdir()
    (git / "index").write_text("1")
    first = place.json("create")["id"]
    (git / "index").write_text("2")
    (git / "HEAD").write_text("main")
    assert place.run("diff") == ".git: 2 paths changed (--all shows them)\n"
    (place.root / "a.txt").write_text("one\n2\n")
    assert place.run("diff", "--stat").splitlines() == [
        "M a.txt  +1 -1",
        ".git: 2 paths changed (--all shows them)",
        "3 paths changed, +1 -1",
    ]
    assert all(
        "M .git/index\n--- a/.git/index" in place.run("diff", *words) for words in (["--all"], ["--path", ".git"])
    )
    assert [each["path"] for each in place.json("diff")["changes"]] == [".git/HEAD", ".git/index", "a.txt"]
    assert place.run("restore", first, "--dry-run").splitlines() == [
        "would write a.txt",
        "would bring back 2 paths in .git (--all shows them)",
    ]
    assert "would remove .git/HEAD" in place.run("restore", first, "--dry-run", "--all")
    assert place.json("restore", first, "--dry-run")["would_write"] == [".git/index", "a.txt"]


def test_a_diff_says_nothing_to_the_terminal(place):
    place.run("create")
    (place.root / "a.txt").write_text("one\n\x1b]0;evil\x07\n")
    (place.root / "x\x1b[2J").write_text("")
    assert "\x1b" not in place.run("diff")


def test_two_snapshots_are_compared_by_the_beginnings_of_their_ids(place):
    first = place.json("create")["id"]
    os.rename(place.root / "a.txt", place.root / "c.txt")
    second = place.json("create")["id"]
    assert "R a.txt -> c.txt (100% alike)" in place.run("diff", first[:8], second[:8])
    found = place.json("diff", first[:8], "latest")
    assert (found["before"], found["after"], found["total"]) == (first, second, 1)


def test_what_a_snapshot_holds_is_shown(place):
    (place.root / "sub").mkdir()
    (place.root / "sub" / "x.bin").write_bytes(b"\0\xff")
    os.mkfifo(place.root / "pipe")
    snapshot = place.json("create")["id"]
    (place.root / "a.txt").write_text("new")
    shown = place.run("show")
    assert all(word in shown for word in (snapshot, "a.txt", "sub/", "not held", "a named pipe"))
    assert place.run("show", snapshot, "a.txt") == "one\ntwo\n"
    assert place.json("show", "latest", "a.txt")["content"] == "one\ntwo\n"
    assert [each["name"] for each in place.json("show", "latest", "sub")["entries"]] == ["x.bin"]


def test_damage_is_found_and_the_exit_code_says_so(place):
    snapshot = place.json("create")["id"]
    assert all(word in place.run("verify") for word in ("Intact: read", "of 1 snapshot"))
    assert place.json("verify")["sound"]
    (pack,) = place.state.rglob("*.pack")
    data = bytearray(pack.read_bytes())
    data[data.index(b"one\ntwo")] ^= 1
    pack.write_bytes(data)
    assert f"  {snapshot}  a.txt" in place.run("verify", code=1)
    found = place.json("verify", "--forget", code=1)
    assert (found["sound"], found["harmed"]) == (False, [{"snapshot": snapshot, "path": "a.txt"}])
    (place.root / "a.txt").unlink()
    place.json("restore", snapshot, code=1)


def test_a_damaged_index_is_told_with_what_to_do_and_made_again(place):
    snapshot = place.json("create")["id"]
    (index,) = place.state.rglob("index.sqlite3")
    index.write_bytes(b"no database" * 1000)
    assert "cannot be used" in place.run("list", code=1)
    assert place.json("verify", "--rebuild")["snapshots"] == 1
    assert [each["id"] for each in place.json("list")] == [snapshot]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("restore", "nope"), 1, "no snapshot"),
        (("show", "latest", "nothing"), 1, "nothing"),
        (("diff", "latest", "--path", "/etc"), 2, "outside the workspace"),
        (("gc", "--older-than", "soon"), 2, "not a duration"),
        (("gc", "--keep", "-1"), 2, "range"),
        (("restore",), 2, "SNAPSHOT"),
    ],
)
def test_wrong_use_is_explained(place, words, code, said):
    place.run("create")
    assert said in place.run(*words, code=code)


@pytest.mark.parametrize("command", ["create", "list", "show", "diff", "restore", "undo", "gc", "verify"])
def test_every_command_has_help_with_an_example(place, command):
    said = place.run(command, "--help")
    assert all(word in said for word in (f"toolyard snapshot {command}", "--json", "--workspace", "Example:"))


def test_another_agents_snapshot_is_shown_and_compared_and_restored_only_as_theirs(tmp_path):
    config = tmp_path / "team.yaml"
    config.write_text(json.dumps({"toolyard": {"workspace": "root"}, "agents": [{"id": "ana"}, {"id": "bo"}]}))
    where = ("--config", str(config), "--state", str(tmp_path / "state"))
    theirs = tmp_path / "root" / "agents" / "bo" / "workspace"

    def run(*words):
        ran = CliRunner().invoke(toolyard, ["snapshot", *words, *where], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    run("create", "--agent", "ana")
    run("create", "--agent", "bo")
    (theirs / "x.txt").write_text("old\n")
    bos = json.loads(run("create", "--agent", "bo", "--json"))["id"]
    (theirs / "x.txt").write_text("new\n")
    for who in ((), ("--agent", "ana"), ("--agent", "bo")):
        assert run("show", bos, "x.txt", *who) == "old\n"
        assert run("show", bos, str(theirs / "x.txt"), *who) == "old\n"
        assert run("diff", bos, "--stat", *who).splitlines() == ["M x.txt  +1 -1", "1 path changed, +1 -1"]
        assert run("diff", bos[:11], bos, *who) == ""
    with pytest.raises(ToolyardError, match=f"Snapshot {bos} is bo's") as refused:
        run("restore", bos, "--agent", "ana")
    assert f"`toolyard snapshot restore {bos} --agent bo --config" in refused.value.hint
    for words in (["show"], ["diff"], ["diff", bos, "latest"]):
        with pytest.raises(ToolyardError, match="several agents"):
            run(*words)


def test_of_several_agents_each_has_its_own_history_and_a_list_shows_all(tmp_path):
    config = tmp_path / "team.yaml"
    config.write_text(json.dumps({"toolyard": {"workspace": "root"}, "agents": [{"id": "a"}, {"id": "b"}]}))
    where = ("--config", str(config), "--state", str(tmp_path / "state"))

    def run(*words):
        ran = CliRunner().invoke(toolyard, ["snapshot", *words, *where], catch_exceptions=False)
        return json.loads(ran.stdout)

    for agent in ("a", "b"):
        run("create", "--agent", agent, "--json")
        (tmp_path / "root" / "agents" / agent / "workspace" / "x.txt").write_text(agent)
        run("create", "--agent", agent, "--json")
    assert [each["agent"] for each in run("list", "--json")] == ["b", "b", "a", "a"]
    assert [each["agent"] for each in run("list", "--agent", "a", "--json")] == ["a", "a"]
    with pytest.raises(ToolyardError, match="several agents"):
        run("create", "--json")
