"""`toolyard threads`: the user sees, searches, exports and deletes what was said to the assistant."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ran_with
from tests.support.redis_server import RedisServer
from tests.support.thread_store_suite.kit import eventually, has_expired, nobody_waits
from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.assistant.threads.redis_store import RedisThreads
from toolyard.assistant.threads.sqlite_store import SqliteThreads
from toolyard.assistant.threads.store import ThreadLimits, ThreadStore
from toolyard.assistant.threads.thread import FileSeen, Message, Turn
from toolyard.storage.state_folder import ensure_state_dir, state_dir

TERMS = ThreadLimits(86_400.0, 100)
HOSTILE = "clear\x1b[2J\x07 the \x7f\u202escreen\n\tindented"


class Place:
    """A workspace with threads, and the command line run on it in this process."""

    def __init__(self, base: Path) -> None:
        self.root, self.state = base / "ws", base / "state"
        self.root.mkdir()
        self.where = ["--workspace", str(self.root), "--state", str(self.state)]

    @property
    def folder(self) -> str:
        return state_dir(str(self.state), str(self.root))

    def store(self, terms: ThreadLimits = TERMS) -> SqliteThreads:
        return SqliteThreads(ensure_state_dir(self.folder), terms)

    def run(self, *words: str, code: int = 0, only: str = "output", typed: str | None = None) -> str:
        return ran_with(["threads", *words, *self.where], code=code, only=only, typed=typed)

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code, only="stdout"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def kept(store: ThreadStore, *turns: tuple[str, str], tool: str = "chat") -> str:
    with store.turn(None, nobody_waits) as opened:
        for asked, answered in turns:
            files = (FileSeen("src/app.py", "b3:1"),)
            question = Message("user", asked, tool=tool, at=time.time(), files=files)
            opened.keep(Turn(question, Message("assistant", answered, tool, "google:gemini-2.5-pro", tokens=17)))
    return opened.thread.id


@pytest.fixture
def two(place: Place) -> tuple[str, str]:
    with place.store() as store:
        first = kept(store, ("Which index do the reports need?", "One on created_at."), ("And then?", "Rebuild it."))
        return first, kept(store, ("Review app.py", "Nothing to say."), tool="codereview")


def test_where_there_are_no_threads_nothing_is_made(place: Place) -> None:
    said = f"There are no threads of {place.root} in {place.folder}.\n"
    assert place.run("list") == said
    assert place.json("list") == []
    assert "No turn contains all of these words." in place.run("search", "x", code=1)
    assert f"There is no thread 'abcdef' of {place.root} in {place.folder}." in place.run("show", "abcdef", code=2)
    assert place.run("delete", "--all", "--yes") == said
    assert not place.state.exists()


def test_a_workspace_that_is_not_there_is_told_unless_it_left_threads(place: Place, two: tuple[str, str]) -> None:
    place.root.rmdir()
    assert len(place.run("list").splitlines()) == 2
    place.run("delete", *two)
    assert f"{place.root} is not a folder. Pass the project with --workspace." in place.run("list", code=2)
    assert "is not a folder" in place.run("show", two[0], code=2)


def test_threads_are_listed_the_newest_first(place: Place, two: tuple[str, str]) -> None:
    newest, oldest = place.run("list").splitlines()
    assert newest.startswith(two[1][:12])
    assert newest.endswith("  1 turn   codereview  Review app.py")
    assert oldest.startswith(two[0][:12])
    assert oldest.endswith("  2 turns  chat        Which index do the reports need?")
    listed = place.json("list")
    assert [(each["id"], each["turns"], each["tools"]) for each in listed] == [
        (two[1], 1, ["codereview"]),
        (two[0], 2, ["chat"]),
    ]
    assert len(place.run("list", "--limit", "1", only="stdout").splitlines()) == 1


def test_a_list_that_stops_says_how_many_more_there_are(place: Place, two: tuple[str, str]) -> None:
    with place.store() as store:
        for number in range(50):
            kept(store, (f"Question {number}", "Yes"))
    assert len(place.run("list", only="stdout").splitlines()) == 50
    assert place.run("list", only="stderr") == "2 more are not listed: show them with `--limit 52`.\n"
    assert place.run("list", "--limit", "51", only="stderr") == "1 more is not listed: show it with `--limit 52`.\n"
    assert place.run("list", "--limit", "52", only="stderr") == ""
    assert len(place.json("list")) == 50
    assert place.run("list", "--json", only="stderr") == ""


def test_a_thread_is_shown_by_the_beginning_of_its_id(place: Place, two: tuple[str, str]) -> None:
    shown = place.run("show", two[0][:6])
    assert shown.startswith(f"thread {two[0]}\n")
    order = ["1.  chat", "asked", "Which index", "files: src/app.py", "answered by google:gemini-2.5-pro\n"]
    places = [shown.index(words) for words in [*order, "One on created_at.", "2.  chat", "And then?", "Rebuild it."]]
    assert places == sorted(places)
    last = place.run("show", two[0], "--last", "1")
    assert "2.  chat" in last
    assert "Which index" not in last
    assert "token" not in shown  # as we count them, which is not what the answer said
    whole = place.json("show", two[0])
    assert whole["turns"][0]["answered"]["tokens"] == 17
    assert [turn["answered"]["text"] for turn in whole["turns"]] == ["One on created_at.", "Rebuild it."]
    assert whole["turns"][0]["asked"]["files"] == [{"path": "src/app.py", "digest": "b3:1"}]
    assert [turn["number"] for turn in place.json("show", two[0], "--last", "1")["turns"]] == [2]


def test_an_id_that_is_too_short_wrong_or_expired_says_so(place: Place, two: tuple[str, str]) -> None:
    assert "at least 6 characters" in place.run("show", two[0][:5], code=2)
    said = place.run("export", "0" * 32, code=2)
    assert "There is no thread" in said
    assert f"toolyard threads list --workspace {place.root}" in said
    assert "There is no thread" in place.run("show", "../../etc", code=2)
    with place.store(ThreadLimits(0.01, 9)) as brief:
        gone = kept(brief, ("Soon gone", "Yes"))
        eventually(lambda: has_expired(brief, gone))
    assert "has expired" in place.run("show", gone, code=2)
    assert "There is no thread" in place.run("show", gone[:8], code=2)


def test_an_id_that_begins_several_is_asked_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter(["abcdef" + "0" * 26, "abcdef" + "1" * 26])
    monkeypatch.setattr("secrets.token_hex", lambda count: next(ids))
    with place.store() as store:
        kept(store, ("one", "1"))
        kept(store, ("two", "2"))
    assert "'abcdef' is a prefix of several ids: abcdef0" in place.run("show", "abcdef", code=2)
    assert "one" in place.run("show", "abcdef0")


def test_a_search_says_which_turn_has_the_words(place: Place, two: tuple[str, str]) -> None:
    said = place.run("search", "created_at", "reports")
    assert said.startswith(f"{two[0][:12]}  turn 1, asked, ")
    assert "Which index do the reports need?" in said
    assert [(hit["id"], hit["turn"], hit["role"]) for hit in place.json("search", "rebuild")] == [
        (two[0], 2, "assistant")
    ]
    assert place.json("search", "nowhere", code=1) == []


def test_a_thread_is_exported_as_markdown_and_as_json(place: Place, two: tuple[str, str], tmp_path: Path) -> None:
    page = place.run("export", two[0][:8], only="stdout")
    assert page.startswith(f"# Which index do the reports need?\n\nThread `{two[0]}`, ")
    assert "\n### Asked\n\n```text\nWhich index do the reports need?\n```\n\nFiles: `src/app.py`\n" in page
    assert "\n### Answered by google:gemini-2.5-pro\n\n> One on created_at.\n" in page
    target = tmp_path / "out.json"
    assert f"Wrote {target}." in place.run("export", two[0], "--format", "json", "-o", str(target))
    assert json.loads(target.read_text()) == place.json("show", two[0]) == place.json("export", two[0])


def test_an_export_is_private_whole_and_replaces_a_file_only_when_that_is_said(
    place: Place, two: tuple[str, str], tmp_path: Path
) -> None:
    target = tmp_path / "out.md"
    place.run("export", two[0], "-o", str(target))
    assert target.stat().st_mode & 0o777 == 0o600
    target.write_text("mine")
    target.chmod(0o644)
    said = place.run("export", two[0], "-o", str(target), code=1)
    assert f"{target} already exists; nothing was written." in said
    assert "--force" in said
    assert target.read_text() == "mine"
    link = tmp_path / "link.md"
    link.symlink_to(target)
    assert "already exists" in place.run("export", two[0], "-o", str(link), code=1)
    place.run("export", two[0], "-o", str(link), "--force")
    assert link.is_symlink()
    assert (target.stat().st_mode & 0o777, target.read_text()) == (0o600, place.run("export", two[0], only="stdout"))
    for wrong, why in (
        (tmp_path / "none" / "out.md", "cannot be written: No such file"),
        (tmp_path, "is not a regular file"),
    ):
        said = place.run("export", two[0], "-o", str(wrong), "--force", code=1)
        assert why in said
        assert "omit -o to print it" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "out.md", "state", "ws"]


def test_headings_of_messages_are_not_those_of_the_export(place: Place) -> None:
    asked = "# Mine\n````\n## And this\n````\nover"
    with place.store() as store:
        thread = kept(store, (asked, "# Answer\r## Two\n\n```py\n# code\n\n### Asked"))
    page = place.run("export", thread, only="stdout")
    assert f"\n`````text\n{asked}\n`````\n" in page
    assert page.endswith("\n> # Answer\n> ## Two\n>\n> ```py\n> # code\n>\n> ### Asked\n")


def test_threads_are_deleted_and_others_stay(place: Place, two: tuple[str, str]) -> None:
    said = place.run("delete", two[0], "f" * 32, code=2)
    assert said.startswith(f"There is no thread '{'f' * 32}' of {place.root} ")
    assert "Nothing was deleted. List the threads with" in said
    assert len(place.json("list")) == 2
    assert place.run("delete", two[0][:8]) == f"Deleted thread {two[0]}.\n"
    assert [each["id"] for each in place.json("list")] == [two[1]]
    assert place.json("delete", two[1]) == {"deleted": [two[1]]}


def test_all_are_deleted_only_when_that_is_said_twice(place: Place, two: tuple[str, str]) -> None:
    assert "Give the IDs of threads, or --all" in place.run("delete", code=2)
    assert "Give the IDs of threads, or --all" in place.run("delete", two[0], "--all", code=2)
    said = place.run("delete", "--all", typed="y\n", code=2)
    assert said == "This deletes all 2 threads of the workspace. To proceed, pass --yes."
    assert len(place.json("list")) == 2
    assert sorted(place.json("delete", "--all", "--yes")["deleted"]) == sorted(two)
    assert place.json("list") == []
    with place.store() as store:
        kept(store, ("one", "1"))
        assert place.run("delete", "--all", "--yes") == "Deleted 1 thread.\n"
        kept(store, ("two", "2"))
        kept(store, ("three", "3"))
    assert place.run("delete", "--all", "--yes") == "Deleted 2 threads.\n"


def test_what_was_said_cannot_speak_to_the_terminal(place: Place) -> None:
    with place.store() as store:
        thread = kept(store, (HOSTILE, HOSTILE), tool="chat\x1b[31m")
    for words in (["list"], ["show", thread], ["search", "screen"], ["list", "--json"], ["show", thread, "--json"]):
        said = place.run(*words)
        assert all(character.isprintable() or character == "\n" for character in said)
    assert "\\x1b[2J\\x07 the \\x7f\\u202escreen" in place.run("show", thread)
    assert "\n            indented" in place.run("show", thread)


def at_terminal(place: Place, *words: str) -> str:
    """What the command prints to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "toolyard", "threads", *words, *place.where]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while chunk := _read(ours):
            said += chunk
        assert process.wait(30) == 0
    os.close(ours)
    return said.decode()


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except OSError:  # the other end is gone
        return b""


def test_a_terminal_gets_colours_and_no_commands_of_others(place: Place, tmp_path: Path) -> None:
    with place.store() as store:
        thread = kept(store, (HOSTILE, HOSTILE))
    assert "\x1b[1m" in at_terminal(place, "list")
    shown = at_terminal(place, "export", thread)
    assert "\x1b" not in shown
    assert "clear\\x1b[2J" in shown
    # What goes into a file is what was said.
    place.run("export", thread, "-o", str(tmp_path / "out.md"))
    assert f"\n```text\n{HOSTILE}\n```\n" in (tmp_path / "out.md").read_text()
    assert "\x1b" not in place.run("list")


def test_whoever_stands_below_the_workspace_is_told_where_its_threads_are(
    place: Place, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    below = place.root / "src"
    below.mkdir()
    monkeypatch.chdir(below)
    place.where = ["--state", str(place.state)]
    said = place.run("list", code=2)
    assert f"{below} is inside the workspace {place.root} and has no threads of its own." in said
    monkeypatch.chdir(place.root)
    assert len(place.run("list").splitlines()) == 2


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def test_threads_in_redis_are_those_of_the_configuration(place: Place, redis_server: RedisServer) -> None:
    config = place.root / "assistant.yaml"
    config.write_text(json.dumps({"assistant": {"storage": redis_server.url, "namespace": "team"}}))
    with RedisThreads(RedisClient(redis_server.url), "team", TERMS) as store:
        thread = kept(store, ("In Redis", "Yes"))
    place.where += ["--config", str(config)]
    assert [each["id"] for each in place.json("list")] == [thread]
    assert "In Redis" in place.run("show", thread[:8])
    place.run("delete", thread)
    assert place.run("list") == "There are no threads of team in Redis.\n"
    redis_server.stop()
    assert "does not answer" in place.run("list", code=1)
    assert not place.state.exists()
