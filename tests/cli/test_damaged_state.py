"""Stored files that are damaged: every command that reads one says which file it is and the way out, in no traceback.

A workspace is filled once through the commands themselves. Each case damages one file of it in one way and runs the
commands that read that file.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.conftest import ran_with
from tests.cli.test_threads import kept
from toolyard.assistant.threads.sqlite_store import SqliteThreads
from toolyard.assistant.threads.store import ThreadLimits
from toolyard.cli.main import toolyard
from toolyard.core.errors import ToolyardError
from toolyard.files.roots import Root
from toolyard.memory import Memory
from toolyard.memory.tasks import Tasks
from toolyard.testing.mock_model import Call, Say, serve_model

CONFIG = {
    "toolyard": {
        "workspace": "ws",
        "available_mcp_servers": {
            "my-server": {"command": [sys.executable, "-m", "toolyard.testing.mock_mcp_server"]}
        },
    },
    "agents": [{"id": name, "backend": {"type": "gemini"}} for name in ("a", "b")],
}
WHERE = ("--config", "toolyard.yaml")
AGENT = (*WHERE, "--agent", "a")
FOLDERS = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
HEADER = 100


def with_zeroed_middle(data: bytes) -> bytes:
    quarter = len(data) // 4
    return data[:quarter] + bytes(len(data) - 2 * quarter) + data[len(data) - quarter :]


def with_garbage_header(data: bytes) -> bytes:
    return random.Random(1).randbytes(HEADER) + data[HEADER:]


DAMAGE: dict[str, Callable[[bytes], bytes] | None] = {
    "emptied": lambda _: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "zeroed in the middle": with_zeroed_middle,
    "garbage header": with_garbage_header,
    "a folder in its place": None,
}
SNAPSHOT_COMMANDS = [
    ("snapshot", "list", *AGENT),
    ("snapshot", "diff", *AGENT),
    ("snapshot", "create", *AGENT),
    ("snapshot", "verify", *AGENT),
    ("snapshot", "undo", "--dry-run", *AGENT),
    ("share", "diff", "b", *AGENT),
    ("share", "merge", "b", "x.txt", *AGENT),
]
SHARE_COMMANDS = [
    ("share", "list", *AGENT),
    ("share", "diff", "b", *AGENT),
    ("share", "origin", *AGENT),
    ("share", "merge", "b", "x.txt", *AGENT),
]
MEMORY_COMMANDS = [
    ("memory", "list", "--agent", "a"),
    ("memory", "search", "database", "--agent", "a"),
    ("memory", "add", "more", "--agent", "a"),
]
CALL = ("call", "my-server.echo", "--args", '{"text": "a"}', *AGENT)
MOVE_AWAY = "Look at what was put there, move it away, and start again."
REBUILD = "verify --rebuild"
CHANGED = "the log was modified"
"""The verdict of `audit --verify`, which names the state folder and the lines."""
NO_TURNS = "No turn contains all of these words."
"""Emptied threads are as good as none."""
REFUSED = 126
"""Of `call`."""
# A file of the filled workspace: what reads it, and the words of the way out.
READERS: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...]]] = {
    "audit.jsonl": (
        [("audit", *AGENT), ("audit", "--verify", *AGENT), CALL, ("memory", "list")],
        (MOVE_AWAY, CHANGED),
    ),
    "audit.head": ([("audit", *AGENT), ("audit", "--verify", *AGENT), CALL], (MOVE_AWAY, CHANGED)),
    "threads.sqlite3": (
        [("threads", "list"), ("threads", "search", "question")],
        ("Move it and its -wal and -shm files away", "Move it away", NO_TURNS),
    ),
    "core_memories.json": (MEMORY_COMMANDS, ("Correct the file, or move it away", "is a folder, not a file")),
    "task_history.json": (MEMORY_COMMANDS, ("Correct the file, or move it away", "is a folder, not a file")),
    "preferences.yaml": (MEMORY_COMMANDS, ("Correct the file, or move it away", "is a folder, not a file")),
    "learned_patterns.md": (MEMORY_COMMANDS, ("Correct the file, or move it away", "is a folder, not a file")),
    "current_task.yaml": (MEMORY_COMMANDS, ("Correct the file, or move it away", "is a folder, not a file")),
    "trust/*": ([("trust", "--list"), ("tools", "list")], ("toolyard trust",)),
    "catalog.sqlite": ([("tools", "list"), ("search", "echo"), CALL, ("sync",)], ("sync --rebuild",)),
    "tools.sqlite": ([("search", "echo"), ("sync",)], ("`toolyard sync` builds it", "Move it away")),
    "told.json": ([("sync",), ("tools", "list")], ()),
    "run.sqlite3": ([("run", "--list"), ("run", "--resume", "RUN", "--rounds", "5")], ("start another run",)),
    "events.jsonl": ([("run", "--list"), ("run", "--resume", "RUN", "--rounds", "5")], ()),
    "provenance.sqlite3": (SHARE_COMMANDS, ("Move the file away",)),
    "index.sqlite3": (SNAPSHOT_COMMANDS, (REBUILD,)),
    "000001.pack": (SNAPSHOT_COMMANDS, (REBUILD, "snapshot verify", "Damaged: ")),
}
EMPTIED, CUT = "emptied", "cut in half"
# Damage after which a command may succeed and print less without naming the file: an emptied file is as good as none,
# logs are read line by line, and a trust that cannot be read is none.
MAY_LOSE: dict[str, set[str]] = {
    "audit.jsonl": {kind for kind, change in DAMAGE.items() if change is not None},
    "threads.sqlite3": {EMPTIED},
    "core_memories.json": {EMPTIED},
    "task_history.json": {EMPTIED},
    "preferences.yaml": {EMPTIED},
    "learned_patterns.md": {EMPTIED, CUT},
    "current_task.yaml": {EMPTIED},
    "trust/*": {*DAMAGE},
    "catalog.sqlite": {EMPTIED},
    "events.jsonl": {*DAMAGE},
    "provenance.sqlite3": {EMPTIED},
}
REPLACED = {"tools.sqlite"}
"""Files that a command which succeeds has made anew; it says so."""
# What may be printed in the place of what is lost.
IN_ITS_PLACE = re.compile(
    r"There are no (threads|runs)|No configuration is trusted|No tools? (is|are) known|Nothing was merged here yet"
    r"|a  \d facts?, \d tasks?, \d patterns?, \d preferences?  |ID  TIME  not ended$"
    r"|  . [ab]  (best so far|answered) · SPENT$"
)
# What is never the same twice, or counts what had to be done again.
VARYING = (
    (re.compile(r"\b(?:[0-9a-f]{16}|[0-9a-f]{12}|[0-9a-f]{8})\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?"), "TIME"),
    (re.compile(r"\b(?:\d+ \w+ ago|now)\b|\b\d+ \w+ old\b"), "AGO"),
    (re.compile(r"\b[\d.]+ ?(?:ms|s|seconds?)\b"), "LONG"),
    (re.compile(r"asked \d+, wrote \d+ files?"), "asked N, wrote N files"),
    (re.compile(r"\d+k? tokens · \$[\d.]+"), "SPENT"),
    (re.compile(r"  +(?:first|\d+ changes?)  "), "  CHANGES  "),
    (re.compile(r"  +"), "  "),
)


class Filled:
    """A workspace in which every kind of stored file exists, put back as it was before each case."""

    def __init__(self, base: Path) -> None:
        self.base, self.saved = base / "now", base / "saved"
        self.run = ""
        self._sound: dict[tuple[str, ...], set[str]] = {}

    def fill(self) -> None:
        (self.base / "ws").mkdir()
        (self.base / "toolyard.yaml").write_text(json.dumps(CONFIG))
        for words in (("trust", "--yes"), ("sync", *WHERE), ("run", "toolyard.yaml", "Write a plan")):
            ran_with(words, code=0)
        with contextlib.closing(Root(str(self.base / "ws"))) as root:
            memory = Memory(root, "a")
            memory.remember("The database is slow")
            memory.add_task("Tune the database", "Twice as fast", {"id": "task-1"})
            memory.note_pattern("Look first", "EXPLAIN says which index is missing.")
            memory.set_preference("database", "PostgreSQL")
            Tasks(root, "a").begin("Build the site", ["Draw", "Write"])
        (self.base / "ws/agents/b/workspace/x.txt").write_text("hello\n")
        ran_with(("snapshot", "create", *WHERE, "--agent", "b"), code=0)
        ran_with(("snapshot", "create", *AGENT), code=0)
        ran_with(("share", "merge", "b", "x.txt", *AGENT), code=0)
        (run,) = self.base.rglob("run.sqlite3")
        self.run = run.parent.name
        with SqliteThreads(str(run.parents[2]), ThreadLimits(86_400.0, 100)) as threads:
            kept(threads, ("a question", "an answer"))
        os.chdir("/")
        shutil.copytree(self.base, self.saved, symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.copytree(self.saved, self.base, symlinks=True)
        os.chdir(self.base)

    def sound(self, words: tuple[str, ...]) -> set[str]:
        """The lines that a command prints where nothing is damaged."""
        if words not in self._sound:
            self.restore()
            code, said = outcome(words)
            assert code == 0, (words, said)
            self._sound[words] = lines_of(said)
        return self._sound[words]

    def worked_on(self) -> dict[str, str]:
        """The files that the agents work on."""
        workspaces = [self.base / f"ws/agents/{agent}/workspace" for agent in ("a", "b")]
        files = (path for workspace in workspaces for path in workspace.iterdir() if not path.is_symlink())
        return {str(path.relative_to(self.base)): path.read_text() for path in files if path.is_file()}

    def facts(self) -> list[str]:
        """What agent a remembers."""
        stored = json.loads((self.base / "ws/agents/a/memory/core_memories.json").read_text())
        return [fact["text"] for fact in stored]

    def damaged(self, name: str, kind: str) -> Path:
        self.restore()
        (path,) = (found for found in self.base.rglob(name) if ".shared.trees" not in str(found))
        sound, change = path.read_bytes(), DAMAGE[kind]
        path.unlink()
        if change is None:
            path.mkdir()
        else:
            path.write_bytes(change(sound))
        return path


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    base = tmp_path_factory.mktemp("filled").resolve()
    place = Filled(base)
    place.base.mkdir()
    script = [Call("Write", {"file_path": "plan.md", "content": "# Plan\n"}), Say("Done.\nVOTE: a")]
    before = os.getcwd()
    with pytest.MonkeyPatch.context() as patch, serve_model(script) as server:
        for name in FOLDERS:
            (place.base / name).mkdir()
            patch.setenv(name, str(place.base / name))
        patch.setenv("GEMINI_API_KEY", "a-key")
        patch.setenv("GOOGLE_GEMINI_BASE_URL", server.gemini)
        os.chdir(place.base)
        try:
            place.fill()
            yield place
        finally:
            os.chdir(before)


def outcome(words: Sequence[str]) -> tuple[int, str]:
    """The exit code and all that was printed. An exception that is none of ours is a traceback, and is raised."""
    ran = CliRunner().invoke(toolyard, words)
    if isinstance(ran.exception, ToolyardError):
        return (2 if ran.exception.kind in {"config", "validation"} else 1), ran.output + str(ran.exception)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran.exit_code, ran.output


def lines_of(text: str) -> set[str]:
    """The lines of what was printed, without what is never the same twice."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return {line.rstrip() for line in text.splitlines() if line.strip()}


def assert_succeeded(filled: Filled, words: tuple[str, ...], said: str, path: Path, *, may_lose: bool) -> None:
    """What a command printed that succeeded beside a damaged file is true, and all that is lost is said."""
    sound, printed = filled.sound(words), lines_of(said)
    warned = {line for line in printed if path.name in line}
    in_its_place = {line for line in printed if IN_ITS_PLACE.match(line)}
    cut = {line for line in printed if may_lose and any(whole.startswith(line) for whole in sound)}
    assert printed - sound - warned - in_its_place - cut == set(), words
    assert warned or path.name not in REPLACED, words
    if not warned and not may_lose:
        assert printed == sound, words


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named_with_the_way_out(filled: Filled, name: str, kind: str) -> None:
    commands, ways = READERS[name]
    codes: set[int] = set()
    for with_run in commands:
        words = tuple(filled.run if word == "RUN" else word for word in with_run)
        filled.sound(words)
        path = filled.damaged(name, kind)
        files = filled.worked_on()
        code, said = outcome(words)
        codes.add(code)
        assert filled.worked_on() == files, words
        assert "inside Toolyard" not in said, said
        if code:
            assert code in ({2} if name == "trust/*" else {1, REFUSED} if words == CALL else {1}), (words, said)
            assert any(way in said for way in ways), (words, said)
            shown = "toolyard.yaml" if name == "trust/*" else path.name
            assert shown in said or CHANGED in said or NO_TURNS in said, (words, said)
            continue
        assert_succeeded(filled, words, said, path, may_lose=kind in MAY_LOSE.get(name, ()))
        if words[:2] == ("memory", "add"):
            kept = [] if name == "core_memories.json" else ["The database is slow"]
            assert filled.facts() == [*kept, "more"], words
    if kind == "garbage header" and ways:
        assert max(codes) > 0, "the damage was not noticed"


@pytest.mark.parametrize("name", READERS)
def test_without_damage_every_one_of_these_commands_succeeds(filled: Filled, name: str) -> None:
    for words in READERS[name][0]:
        filled.restore()
        assert outcome([filled.run if word == "RUN" else word for word in words])[0] == 0, words


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_rebuild_says_what_the_packs_have_lost_and_snapshots_go_on(filled: Filled, kind: str) -> None:
    path = filled.damaged("000001.pack", kind)
    code, said = outcome(("snapshot", "verify", "--rebuild", *AGENT))
    assert code == 1, said
    assert "Sound" not in said
    assert f"of {path} cannot be read" in said

    outcome(("snapshot", "verify", "--rebuild", "--forget", *AGENT))
    for words in (("create",), ("restore", "latest", "x.txt")):
        code, said = outcome(("snapshot", *words, *AGENT))
        assert code == 0, said
        (filled.base / "ws/agents/a/workspace/x.txt").unlink()
