"""Code in a sandbox and the host keep one memory: the same files, the same form, the same lock."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path

import pytest

from tests.support.barrier import together
from toolyard.files.roots import Root
from toolyard.memory import Memory, search_memories
from toolyard_runtime import memory, memory_entries, shared_file


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The host's view of the memory that `toolyard_runtime.memory` takes for its own."""
    monkeypatch.setenv("TOOLYARD_PACKAGES", str(tmp_path))
    monkeypatch.setenv("TOOLYARD_AGENT", "a")
    root = Root(str(tmp_path))
    yield Memory(root, "a")
    root.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agents/a/memory/core_memories.json"
    path.parent.mkdir(parents=True)
    return path


def test_what_code_keeps_the_host_reads(host: Memory) -> None:
    fact = memory.remember("The reports need an index", topic="databases", metadata={"sure": True})
    task = memory.add_task("Speed up the reports", "Twice as fast", started="monday")
    memory.note_pattern("Look\nfirst", "EXPLAIN says which index is missing.")
    assert [kept.entry for kept in host.facts()] == [fact] == memory.facts()
    assert [past.entry for past in host.history()] == [task] == memory.history()
    assert [(kept.title, kept.text) for kept in host.patterns()] == memory.patterns()
    assert memory.patterns()[0][0] == "Look first"
    assert list(fact) == ["topic", "id", "text", "created", "metadata"]
    assert (task["description"], task["outcome"], task["started"]) == (
        "Speed up the reports",
        "Twice as fast",
        "monday",
    )


def test_what_the_host_keeps_code_reads_and_writes_in_the_same_form(host: Memory, file: Path) -> None:
    kept = host.remember("Ünal likes tea", topic="people")
    by_host = file.read_bytes()
    assert memory.remember("Ünal likes tea", topic="people") == kept.entry
    assert file.read_bytes() == by_host
    other = memory.remember("tea", topic="people")
    assert memory.forget(other["id"]) == other
    assert file.read_bytes() == by_host
    with pytest.raises(LookupError, match="no fact nothing"):
        memory.forget("nothing")


def test_what_others_wrote_by_hand_stays(host: Memory, file: Path) -> None:
    theirs = ["a bare line", {"topic": "performance", "note": "use caches"}, 3]
    file.write_text(json.dumps(theirs))
    memory.remember("mine")
    assert json.loads(file.read_text())[:3] == theirs
    for fact in host.facts()[:3]:
        memory.forget(fact.id)
    assert [fact.text for fact in host.facts()] == ["mine"]


def test_code_and_host_rank_alike(host: Memory) -> None:
    host.remember("Databases want an index", topic="performance")
    host.add_task("Tune the database", "Twice as fast")
    host.note_pattern("Caching", "Keep what the database said.")
    host.remember("Tea at four")
    for question in ("database", "which index", "zebra"):
        found = search_memories(host.facts_file.root, "a", question, {}).hits
        assert memory.recall(question) == [
            {"file": hit.file, "id": hit.id, "text": hit.text, "score": hit.score} for hit in found
        ]
    assert len(memory.recall("database", top=1)) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [(b'[{"text": "precious",}]', "not JSON"), (b"\xff\xfe", "UTF-8"), (b'{"a": 1}', "list"), (b"[NaN]", "NaN")],
)
def test_nonsense_is_left_as_it_is(host: Memory, file: Path, data: bytes, why: str) -> None:
    file.write_bytes(data)
    for act in (memory.facts, lambda: memory.recall("x"), lambda: memory.remember("x"), lambda: memory.forget("x")):
        with pytest.raises(ValueError, match=why):
            act()
    assert file.read_bytes() == data
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.usefixtures("host")
def test_what_does_not_belong_into_a_memory_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="1 to 20,000 characters"):
        memory.remember(" ")
    with pytest.raises(ValueError, match="1 to 200 characters"):
        memory.note_pattern("x" * 201, "y")
    with pytest.raises(ValueError, match="JSON"):
        memory.remember("x", metadata={"n": float("nan")})
    with pytest.raises(ValueError, match="not the name of an agent"):
        memory.facts("../b")
    monkeypatch.setattr(memory_entries, "MOST_FACTS", 1)
    memory.remember("one")
    with pytest.raises(ValueError, match="at most 1 facts"):
        memory.remember("two")
    monkeypatch.setattr(memory_entries, "FILE_BYTES", 10)
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        memory.facts()
    os.unlink(file)
    with pytest.raises(ValueError, match="would be larger than 10 bytes"):
        memory.remember("three")
    assert os.listdir(file.parent) == []


@pytest.mark.usefixtures("host")
def test_a_link_in_the_place_of_a_file_is_not_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('["secret"]')
    file.symlink_to(tmp_path / "secret.json")
    for act in (memory.facts, lambda: memory.remember("x")):
        with pytest.raises(OSError, match="symbolic links"):
            act()
    assert (tmp_path / "secret.json").read_text() == '["secret"]'
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(OSError, match="not a regular file"):
        memory.facts()


@pytest.mark.usefixtures("host")
def test_a_lock_that_is_never_given_back_hangs_nobody(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_file, "LOCK_SECONDS", 0.05)
    held = os.open(file.parent, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(TimeoutError, match="nothing was written"):
        memory.remember("x")
    os.close(held)
    memory.remember("x")
    assert len(memory.facts()) == 1


def test_where_there_is_no_agent_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLYARD_AGENT", raising=False)
    with pytest.raises(RuntimeError, match="no agent"):
        memory.facts()


EACH = 8
PROGRAM = f"""
import sys
from toolyard_runtime import memory
print("ready", flush=True)
sys.stdin.readline()
for number in range({EACH}):
    memory.remember(f"{{sys.argv[1]}} {{number}}")
    memory.add_task(f"{{sys.argv[1]}} {{number}}", "done")
"""


def test_the_host_and_programs_that_write_at_once_lose_nothing(host: Memory) -> None:
    def write(name: str, remember, add_task) -> None:
        for number in range(EACH):
            remember(f"{name} {number}")
            add_task(f"{name} {number}", "done")

    threads = [
        threading.Thread(target=write, args=("host", host.remember, host.add_task)),
        threading.Thread(target=write, args=("code", memory.remember, memory.add_task)),
    ]
    with together(PROGRAM, [[f"program{number}"] for number in range(2)]) as running:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert [process.wait(50) for process in running] == [0, 0]
    wanted = sorted(f"{who} {n}" for who in ("host", "code", "program0", "program1") for n in range(EACH))
    assert sorted(fact.text for fact in host.facts()) == wanted
    assert sorted(task.description for task in host.history()) == wanted
