"""What an agent keeps: typed helpers and plain files side by side, and nothing of anybody's is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.barrier import together
from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.files import locked_document
from toolyard.files.locked_document import UnreadableFile, parse_list, write_list
from toolyard.files.roots import Root
from toolyard.memory import Memory, facts, preferences, search_memories, task_history


@pytest.fixture
def memory(root: Root) -> Memory:
    return Memory(root, "a")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "agents/a/memory"
    made.mkdir(parents=True)
    return made


def test_a_memory_that_was_never_used_is_empty(memory: Memory, tmp_path: Path) -> None:
    assert (memory.facts(), memory.history(), memory.patterns(), memory.preferences()) == ((), (), (), {})
    assert list(tmp_path.iterdir()) == []


def test_facts_are_remembered_and_forgotten(memory: Memory, tmp_path: Path) -> None:
    kept = memory.remember("Ünal likes tea", topic="people", metadata={"sure": True})
    memory.remember("The build needs Java")
    assert memory.remember("Ünal likes tea", topic="people") == kept
    assert [(fact.text, fact.topic, dict(fact.metadata)) for fact in memory.facts()] == [
        ("Ünal likes tea", "people", {"sure": True}),
        ("The build needs Java", "", {}),
    ]
    (first, second) = json.loads((tmp_path / "agents/a/memory/core_memories.json").read_text())
    assert list(first) == ["topic", "id", "text", "created", "metadata"]
    assert list(second) == ["id", "text", "created"]
    assert memory.forget(kept.id) == kept
    assert [fact.text for fact in memory.facts()] == ["The build needs Java"]
    with pytest.raises(ToolError, match=r"no fact nothing.*List the facts"):
        memory.forget("nothing")


def test_tasks_patterns_and_preferences_are_kept_as_the_files_say(memory: Memory, folder: Path) -> None:
    memory.add_task("Build a website", "It is online", {"started": "monday", "description": "not this"})
    memory.note_pattern("Retry\nslowly", "Wait longer each time.")
    memory.note_pattern("Cache", "Keep what was read.")
    memory.set_preference("language", "Dansk")
    similar = [
        task for task in json.loads((folder / "task_history.json").read_text()) if "website" in task["description"]
    ]
    assert [(task["outcome"], task["started"]) for task in similar] == [("It is online", "monday")]
    assert [task.description for task in memory.history()] == ["Build a website"]
    page = (folder / "learned_patterns.md").read_text()
    assert page.startswith("# Learned patterns\n\n## Retry slowly\n\n_2")
    assert [pattern.title for pattern in memory.patterns()] == ["Retry slowly", "Cache"]
    assert memory.patterns()[1].text.endswith("Keep what was read.")
    assert yaml.safe_load((folder / "preferences.yaml").read_text()) == {"language": "Dansk"}


def test_what_others_wrote_by_hand_is_a_fact_too_and_stays_as_it_is(memory: Memory, folder: Path) -> None:
    theirs = [
        "a bare line",
        {"topic": "performance", "note": "use caches"},
        3,
        {"id": "7", "text": "x", "extra": [1]},
    ]
    (folder / "core_memories.json").write_text(json.dumps(theirs))
    assert [fact.text for fact in memory.facts()] == [
        "a bare line", '{"topic": "performance", "note": "use caches"}', "3", "x",
    ]  # fmt: skip
    memory.remember("mine")
    assert json.loads((folder / "core_memories.json").read_text())[:4] == theirs
    for fact in memory.facts()[:3]:
        memory.forget(fact.id)
    assert [fact.text for fact in memory.facts()] == ["x", "mine"]


NONSENSE = {
    "core_memories.json": (lambda memory: memory.remember("x"), lambda memory: memory.facts()),
    "task_history.json": (lambda memory: memory.add_task("x", "y"), lambda memory: memory.history()),
    "preferences.yaml": (lambda memory: memory.set_preference("x", 1), lambda memory: memory.preferences()),
    "learned_patterns.md": (lambda memory: memory.note_pattern("x", "y"), lambda memory: memory.patterns()),
}


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("core_memories.json", b'[{"text": "precious",}]', "not JSON: line 1, column 2[123]"),
        ("core_memories.json", b'{"text": "precious"}', "must be a list"),
        ("core_memories.json", b'[{"a": 1, "a": 2}]', "twice"),
        ("core_memories.json", b"[NaN]", "NaN"),
        ("core_memories.json", b"[1e999]", "too large"),
        ("core_memories.json", b"[" + b"9" * 5_000 + b"]", "cannot be read"),
        ("core_memories.json", b"[" * 100_000, "nested too deeply"),
        ("core_memories.json", "[]".encode("utf-16"), "UTF-8"),
        ("core_memories.json", b"\0\0\0\0", "NUL"),
        ("task_history.json", b"[", "not JSON"),
        ("preferences.yaml", b"a: [1\nb: 2", "not plain YAML"),
        ("preferences.yaml", b"- a\n- b", "keys and values"),
        ("preferences.yaml", b"a: !!python/object:os.system {}", "not plain YAML"),
        ("preferences.yaml", b"a: 1\na: 2", "not plain YAML"),
        ("learned_patterns.md", b"\xff\xfe", "UTF-8"),
    ],
)
def test_nonsense_is_neither_overwritten_nor_lost(
    memory: Memory, folder: Path, name: str, data: bytes, why: str
) -> None:
    write, read = NONSENSE[name]
    (folder / name).write_bytes(data)
    with pytest.raises(ToolError, match=why):
        read(memory)
    assert [path.name for path in folder.iterdir()] == [name]
    for _ in range(2):
        with pytest.raises(ToolError, match=rf"{why}.*left unchanged\. A copy.*Correct the file"):
            write(memory)
    assert (folder / name).read_bytes() == data
    (copy,) = folder.glob(f"{name}.unreadable-*")
    assert copy.read_bytes() == data
    assert memory.set_aside() == (copy.name,)
    assert copy.read_bytes() == data
    write(memory)
    assert read(memory)
    assert memory.set_aside() == ()


def test_setting_aside_moves_a_file_nobody_tried_to_write(memory: Memory, folder: Path) -> None:
    (folder / "core_memories.json").write_bytes(b"{")
    (name,) = memory.set_aside()
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_bytes() == b"{"


def test_copies_of_nonsense_do_not_fill_the_disk(memory: Memory, folder: Path) -> None:
    for number in range(30):
        (folder / "core_memories.json").write_text(f"nonsense {number}")
        with pytest.raises(ToolError, match="left unchanged"):
            memory.remember("x")
    assert len(list(folder.glob("*.unreadable-*"))) == 20


@pytest.mark.parametrize("link", ["agents/a", "agents/a/memory", "agents/a/memory/core_memories.json"])
def test_no_link_leads_to_anothers_memory(root: Root, memory: Memory, tmp_path: Path, link: str) -> None:
    Memory(root, "b").remember("secret of b")
    theirs = (tmp_path / "agents/b/memory/core_memories.json").read_text()
    place = tmp_path / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(tmp_path / link.replace("/a", "/b"))
    with pytest.raises(SecurityError, match="link"):
        memory.facts()
    with pytest.raises(Exception, match="link"):
        memory.remember("x")
    assert (tmp_path / "agents/b/memory/core_memories.json").read_text() == theirs


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda memory: memory.remember(""), "text"),
        (lambda memory: memory.remember("x" * 20_001), "text"),
        (lambda memory: memory.remember("x", "y" * 201), "topic"),
        (lambda memory: memory.remember("x", metadata={"a": object()}), "metadata"),
        (lambda memory: memory.remember("x", metadata={"a": "y" * 20_001}), "metadata"),
        (lambda memory: memory.remember("x", metadata={"a": float("nan")}), "metadata"),
        (lambda memory: memory.add_task("", "y"), "description"),
        (lambda memory: memory.note_pattern("x", ""), "text"),
        (lambda memory: memory.set_preference("a b", 1), "key"),
        (lambda memory: memory.set_preference("a", {1, 2}), "value"),
    ],
)
def test_what_does_not_belong_into_a_memory_is_refused(memory: Memory, tmp_path: Path, act, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        act(memory)
    assert list(tmp_path.rglob("*.*")) == []


def test_a_memory_does_not_grow_without_end(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MOST_FACTS", 3)
    monkeypatch.setattr(task_history, "MOST_TASKS", 3)
    for number in range(3):
        memory.remember(f"fact {number}")
    with pytest.raises(ToolError, match="at most 3 facts"):
        memory.remember("one more")
    for number in range(5):
        memory.add_task(f"task {number}", "done")
    assert [task.description for task in memory.history()] == ["task 2", "task 3", "task 4"]
    assert len(memory.facts()) == 3


def test_a_file_that_is_too_large_is_refused_before_it_is_written(root: Root, folder: Path) -> None:
    small = locked_document.LockedDocument(
        root, "agents/a/memory", "core_memories.json", parse_list, write_list, max_bytes=100
    )
    small.change(lambda entries: [*entries, "x"])
    with pytest.raises(ValidationError, match=r"larger than 100 bytes.*Remove"):
        small.change(lambda entries: [*entries, "y" * 100])
    assert small.read() == ["x"]


def test_a_file_that_grew_too_large_is_said_so_and_left_alone(memory: Memory, root: Root, folder: Path) -> None:
    huge = folder / "core_memories.json"
    with huge.open("w") as file:
        file.truncate(locked_document.FILE_BYTES + 1)
    for act in (memory.facts, lambda: memory.remember("x"), memory.set_aside):
        with pytest.raises(ToolError, match=r"8,388,609 bytes, and at most 8,388,608 are read.*left unchanged"):
            act()
    assert huge.stat().st_size == locked_document.FILE_BYTES + 1
    assert [path.name for path in folder.iterdir()] == ["core_memories.json"]
    memory.set_preference("database", "PostgreSQL")
    found = search_memories(root, "a", "database", {})
    assert [hit.file for hit in found.hits] == ["preferences.yaml"]
    assert "at most 8,388,608" in found.faults[0]


EACH = 5


def test_writers_in_threads_and_processes_lose_nothing(memory: Memory, root: Root, tmp_path: Path) -> None:
    program = (
        "import sys; from toolyard.files.roots import Root; from toolyard.memory import Memory\n"
        "memory = Memory(Root(sys.argv[1]), 'a'); print('ready', flush=True); sys.stdin.readline()\n"
        f"for n in range({EACH}):\n"
        "    memory.remember(f'{sys.argv[2]} {n}'); memory.set_preference(f'{sys.argv[2]}_{n}', n)\n"
    )

    def write(name: str) -> None:
        for number in range(EACH):
            memory.remember(f"{name} {number}")
            memory.set_preference(f"{name}_{number}", number)

    threads = [threading.Thread(target=write, args=(f"thread{number}",)) for number in range(2)]
    with together(program, [[str(tmp_path), f"process{number}"] for number in range(2)]) as running:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert [process.wait(50) for process in running] == [0, 0]
    wanted = {f"{kind}{who} {n}" for kind in ("thread", "process") for who in range(2) for n in range(EACH)}
    assert {fact.text for fact in memory.facts()} == wanted
    assert len(memory.facts()) == len(wanted)
    assert set(memory.preferences()) == {name.replace(" ", "_") for name in wanted}


def test_setting_a_preference_leaves_comments_and_the_rest_alone(memory: Memory, folder: Path) -> None:
    before = "# what I like\nlanguage: en  # for now\n\n# numbers\nsizes:\n  - 1\n  - 2\n\n# last\nend: yes\n"
    (folder / "preferences.yaml").write_text(before)
    memory.set_preference("sizes", [3])
    memory.set_preference("new", {"a": "b: c # d"})
    after = before.replace("sizes:\n  - 1\n  - 2\n", "sizes: [3]\n") + 'new: {"a": "b: c # d"}\n'
    assert (folder / "preferences.yaml").read_text() == after
    memory.drop_preference("language")
    assert memory.preferences() == {"sizes": [3], "end": True, "new": {"a": "b: c # d"}}


def test_a_preference_can_be_set_in_a_file_of_any_form(memory: Memory, folder: Path) -> None:
    (folder / "preferences.yaml").write_text("# mine\n{a: 1,\n b: two}\n")
    memory.set_preference("a", True)
    assert memory.preferences() == {"a": True, "b": "two"}
    assert "# mine" in (folder / "preferences.yaml").read_text()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, max_size=4))
def test_any_list_comes_back_as_it_was_written(entries: list) -> None:
    assert parse_list(write_list(entries)) == entries


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,9}", fullmatch=True), VALUES, max_size=4), st.binary()
)
def test_preferences_come_back_or_are_refused(wanted: dict, garbage: bytes) -> None:
    try:
        before = preferences.parse(garbage)
    except UnreadableFile:
        before, garbage = {}, b""
    written = preferences.serialize({**before, **wanted}, garbage)
    try:
        assert preferences.parse(written).keys() == {**before, **wanted}.keys()
    except UnreadableFile as error:
        # Only what YAML has no way to write: half a surrogate pair was replaced.
        raise AssertionError(written) from error


@pytest.mark.skipif(
    shutil.which("ast-grep", path=sysconfig.get_path("scripts")) is None, reason="the extra code is not installed"
)
def test_ast_grep_finds_a_fact_by_its_topic(memory: Memory, folder: Path) -> None:
    memory.remember("use caches", topic="performance")
    memory.remember("use paint", topic="looks")
    program = shutil.which("ast-grep", path=sysconfig.get_path("scripts"))
    assert program is not None
    pair = {"kind": "pair", "pattern": {"context": '{"topic": "performance"}', "selector": "pair"}}
    rule = {"id": "topic", "language": "json", "rule": {"kind": "object", "has": pair}}
    command = [program, "scan", "--json", "--inline-rules", json.dumps(rule), "core_memories.json"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=False)
    assert "use caches" in found.stdout
    assert "use paint" not in found.stdout
