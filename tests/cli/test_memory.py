"""`toolyard memory`: the user sees, searches and corrects what agents remember, and brings it along from mem0."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from toolyard.files.roots import Root
from toolyard.memory import Memory
from toolyard.memory.tasks import Tasks
from toolyard_runtime.memory_entries import MOST_TEXT

from .conftest import Attached

STORE = Path(__file__).parents[1] / "memory/data/qdrant"
TEAM = [
    {"id": "a", "memory": {"allow_read_from": ["b"]}},
    {"id": "b"},
    {"id": "c"},
]


@pytest.fixture
def team(attached: Attached) -> Attached:
    attached.document = {"toolyard": {"workspace": "ws"}, "agents": TEAM}
    return attached


@pytest.fixture
def kept(team: Attached) -> Attached:
    """Each agent remembers something of the database."""
    root = Root(str(team.base / "ws"))
    memory = Memory(root, "a")
    memory.remember("Databases want an index", topic="performance")
    memory.add_task("Tune the database", "Twice as fast", {"id": "task-1"})
    memory.note_pattern("Look first", "EXPLAIN says which index is missing.")
    memory.set_preference("database", "PostgreSQL")
    Tasks(root, "a").begin("Build the site", ["Draw", "Write"])
    Memory(root, "b").remember("The database of b is slow")
    Memory(root, "c").remember("The database of c is secret")
    root.close()
    return team


def folder(team: Attached, agent: str) -> Path:
    return team.base / "ws/agents" / agent / "memory"


def test_a_fact_is_read_from_the_input(team: Attached) -> None:
    team.run("memory", "add", "-", "--agent", "a", stdin="The reports need an index\non created_at\n")
    (fact,) = team.json("memory", "list", "--agent", "a")[0]["entries"]
    assert fact["text"] == "The reports need an index\non created_at"
    assert "text" in team.run("memory", "add", "-", "--agent", "a", stdin=" \n", code=2)
    assert "text" in team.run("memory", "add", "-", "--agent", "a", stdin="x" * (MOST_TEXT + 9), code=2)


def test_everybodys_memory_is_listed_with_counts(kept: Attached) -> None:
    said = kept.run("memory", "list")
    assert "a  1 fact, 1 task, 1 pattern, 1 preference" in said
    assert "current task: Build the site" in said
    assert "performance: Databases want an index" in said
    assert "b  1 fact, 0 tasks" in said
    listed = kept.json("memory", "list", "--agent", "a", "--last", "0")
    assert [
        (each["agent"], each["facts"], each["tasks"], each["patterns"], each["preferences"]) for each in listed
    ] == [("a", 1, 1, 1, 1)]
    assert (listed[0]["entries"], listed[0]["faults"]) == ([], [])
    assert listed[0]["current_task"]["description"] == "Build the site"
    assert listed[0]["folder"] == str(folder(kept, "a"))


def test_where_nothing_is_remembered_that_is_said(team: Attached) -> None:
    assert "There are no memories here yet." in team.run("memory", "list")
    assert "No memory matches." in team.run("memory", "search", "tea", code=1)
    assert "There is no core_memories.json here." in team.run("memory", "show", "facts", code=1)


def test_a_folder_without_a_configuration_has_a_memory_too(attached: Attached) -> None:
    attached.document = {}
    where = ("--workspace", str(attached.base / "ws"))
    attached.run("memory", "add", "Tea at four", *where)
    assert "agent  1 fact," in attached.run("memory", "list", *where)
    assert "Tea at four" in attached.run("memory", "search", "when is tea", *where)


def test_the_user_searches_everybody_and_an_agent_what_it_may_read(kept: Attached) -> None:
    everybody = kept.json("memory", "search", "database")
    assert {hit["agent"] for hit in everybody} == {"a", "b", "c"}
    assert {hit["agent"] for hit in kept.json("memory", "search", "database", "--agent", "a")} == {"a", "b"}
    assert {hit["agent"] for hit in kept.json("memory", "search", "database", "--agent", "b")} == {"b"}
    best = kept.json("memory", "search", "which index is missing", "--top", "1")
    assert [(hit["file"], hit["id"]) for hit in best] == [("learned_patterns.md", "Look first")]


def test_ripgrep_finds_lines(kept: Attached) -> None:
    said = kept.run("memory", "search", "--grep", "database of [bc]")
    assert "agents/b/memory/core_memories.json" in said
    assert "agents/c/memory/core_memories.json" in said
    found = kept.json("memory", "search", "--grep", "DATABASE of", "-i", "--agent", "a")
    assert [each["agent"] for each in found] == ["b"]
    assert "No line of any memory matches." in kept.run("memory", "search", "--grep", "zebra", code=1)
    assert "regex" in kept.run("memory", "search", "--grep", "(", code=2)


def test_a_search_is_by_question_or_by_pattern(kept: Attached) -> None:
    assert "either a QUESTION or --grep" in kept.run("memory", "search", code=2)
    assert "either a QUESTION or --grep" in kept.run("memory", "search", "tea", "--grep", "tea", code=2)


def test_an_entry_is_shown_by_its_name_or_the_beginning_of_it(kept: Attached) -> None:
    (fact,) = json.loads((folder(kept, "a") / "core_memories.json").read_text())
    for name in (fact["id"], fact["id"][:8]):
        assert kept.json("memory", "show", name) == {
            "agent": "a", "file": "core_memories.json", "id": fact["id"], "entry": fact,
        }  # fmt: skip
    assert "outcome: Twice as fast" in kept.run("memory", "show", "task-1")
    assert "EXPLAIN says" in kept.run("memory", "show", "Look first")
    assert "database: PostgreSQL" in kept.run("memory", "show", "database", "--agent", "a")
    assert "There is no memory called 'zebra'" in kept.run("memory", "show", "zebra", code=1)


def test_a_file_is_shown_as_it_stands(kept: Attached) -> None:
    page = (folder(kept, "a") / "learned_patterns.md").read_text()
    for name in ("patterns", "learned_patterns.md"):
        assert kept.run("memory", "show", name) == page
    assert "description: Build the site" in kept.run("memory", "show", "task")
    said = kept.run("memory", "show", "facts", code=2)
    assert "several agents have a core_memories.json: a, b, c" in said
    assert "--agent a" in said
    (folder(kept, "b") / "core_memories.json").write_bytes(b"\xff\x1b[2Jnonsense")
    assert kept.run("memory", "show", "facts", "--agent", "b") == "\\xff\\x1b[2Jnonsense\n"


def test_a_fact_is_added_and_forgotten(team: Attached) -> None:
    added = team.json("memory", "add", "Ünal likes tea", "--topic", "people", "--agent", "b")
    assert (added["agent"], added["entry"]["text"], added["entry"]["topic"]) == ("b", "Ünal likes tea", "people")
    assert team.json("memory", "add", "Ünal likes tea", "--topic", "people", "--agent", "b") == added
    assert "It belongs to b: --agent b" in team.run("memory", "forget", added["id"], "--agent", "a", code=2)
    assert "has forgotten: Ünal likes tea" in team.run("memory", "forget", added["id"], "--agent", "b")
    assert "no fact" in team.run("memory", "forget", added["id"], "--agent", "b", code=1)
    assert json.loads((folder(team, "b") / "core_memories.json").read_text()) == []


def test_a_fact_is_forgotten_by_the_beginning_of_its_id_when_that_is_one_facts(team: Attached) -> None:
    place = folder(team, "a") / "core_memories.json"
    place.parent.mkdir(parents=True)
    facts = [{"id": number, "content": f"fact {number}"} for number in ("abcd1111", "abcd2222", "abcd2222f")]
    place.write_text(json.dumps(facts))
    forget = ("memory", "forget", "--agent", "a")
    assert "is a prefix of several ids: abcd1111, abcd2222" in team.run(*forget, "abcd", code=2)
    assert "There is no fact abc." in team.run(*forget, "abc", code=1)
    assert team.json(*forget, "abcd2222")["id"] == "abcd2222"
    assert team.json(*forget, "abcd1")["id"] == "abcd1111"
    assert [fact["id"] for fact in json.loads(place.read_text())] == ["abcd2222f"]
    (folder(team, "b")).mkdir(parents=True)
    (folder(team, "b") / "core_memories.json").write_text("nonsense")
    assert "It belongs to a: --agent a" in team.run("memory", "forget", "abcd2", "--agent", "c", code=2)


def test_whose_memory_is_changed_is_never_guessed(team: Attached) -> None:
    for words in (("add", "x"), ("forget", "x"), ("import", "--from", "mem0", str(STORE))):
        said = team.run("memory", *words, code=2)
        assert "several agents are configured (a, b, c)" in said
        assert "--agent a" in said
    assert "Known here: a, b, c" in team.run("memory", "add", "x", "--agent", "zebra", code=2)
    assert "1 to 20,000 characters" in team.run("memory", "add", " ", "--agent", "a", code=2)


def test_what_mem0_remembers_is_brought_along_as_often_as_one_likes(team: Attached) -> None:
    words = ("memory", "import", "--from", "mem0", str(STORE), "--agent", "a")
    assert "4 would be added" in team.run(*words, "--dry-run")
    assert not (folder(team, "a") / "core_memories.json").exists()
    first = team.json(*words, "--user", "alice")
    assert (first["added"], first["others"], first["kind"], first["dry_run"]) == (3, 1, "qdrant", False)
    again = team.json(*words)
    assert (again["added"], again["unchanged"]) == (1, 3)
    assert team.json(*words)["unchanged"] == 4
    assert team.json("memory", "search", "PostgreSQL", "--agent", "a")[0]["text"].endswith("more than MySQL")
    assert "No memory of the store matches." in team.run(*words, "--user", "nobody", code=1)
    assert "not a local store of mem0" in team.run(*words[:4], str(team.base), "--agent", "a", code=1)
    assert "'mem1' is not 'mem0'" in team.run("memory", "import", "--from", "mem1", str(STORE), code=2)


NONSENSE = {
    "not JSON": b'[{"text": "precious",}]',
    "not UTF-8 text": b'["caf\xe9"]',
    "must be a list": b'{"text": "precious"}',
}


@pytest.mark.parametrize("why", NONSENSE)
def test_facts_edited_into_nonsense_are_told_and_nothing_of_them_is_lost(kept: Attached, why: str) -> None:
    file = folder(kept, "a") / "core_memories.json"
    file.write_bytes(NONSENSE[why])
    said = kept.run("memory", "list", code=1)
    assert why in said
    assert "b  1 fact" in said  # the others are listed all the same
    assert "0 facts, 1 task" in said
    said = kept.run("memory", "search", "database", code=1)
    assert why in said
    assert "The database of b is slow" in said
    (listed,) = kept.json("memory", "list", "--agent", "a", code=1)
    assert why in listed["faults"][0]
    for words in (("add", "x"), ("forget", "x"), ("import", "--from", "mem0", str(STORE))):
        said = kept.run("memory", *words, "--agent", "a", code=1)
        assert why in said
        assert "It was left unchanged." in said
    assert file.read_bytes() == NONSENSE[why]
    (copy,) = file.parent.glob("core_memories.json.unreadable-*")
    assert copy.read_bytes() == NONSENSE[why]


def test_a_file_too_large_to_be_a_memory_is_told(kept: Attached) -> None:
    os.truncate(folder(kept, "a") / "core_memories.json", 9 << 20)
    said = kept.run("memory", "list", code=1)
    assert "9,437,184 bytes" in said
    assert "b  1 fact" in said
    assert "9,437,184 bytes" in kept.run("memory", "add", "x", "--agent", "a", code=1)


def test_a_link_in_the_place_of_a_memory_leads_nowhere(kept: Attached) -> None:
    shutil.rmtree(folder(kept, "b"))
    folder(kept, "b").symlink_to(folder(kept, "c"))
    for words in (("list",), ("search", "secret"), ("search", "--grep", "secret")):
        said = kept.run("memory", *words, code=1)
        assert "link" in said
    assert "secret" not in kept.run("memory", "search", "secret", "--agent", "a", code=1)
    assert "link" in kept.run("memory", "add", "x", "--agent", "b", code=1)
    assert "'x'" not in (folder(kept, "c") / "core_memories.json").read_text()


def test_a_pipe_or_a_folder_in_the_place_of_a_file_holds_nobody_up(kept: Attached) -> None:
    (folder(kept, "b") / "core_memories.json").unlink()
    os.mkfifo(folder(kept, "b") / "core_memories.json")
    (folder(kept, "b") / "preferences.yaml").mkdir()
    said = kept.run("memory", "list", code=1)
    assert "core_memories.json is a named pipe" in said
    assert "preferences.yaml is a folder" in said
    assert "a  1 fact, 1 task" in said
    assert "Databases want an index" in kept.run("memory", "search", "index", code=1)
    assert "agents/a/memory" in kept.run("memory", "search", "--grep", "want an index")
    for words in (("show", "facts"), ("add", "x")):
        assert "named pipe" in kept.run("memory", *words, "--agent", "b", code=1)


@pytest.fixture
def closed(kept: Attached):
    """A memory on a disk that is mounted read-only: root may write everything else."""
    place = folder(kept, "a")
    bound = subprocess.run(["mount", "--bind", str(place), str(place)], capture_output=True, check=False)
    if bound.returncode != 0:
        pytest.skip("mounting needs root")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True, capture_output=True)
        yield kept
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_memory_that_cannot_be_written_is_read_all_the_same(closed: Attached) -> None:
    assert "1 fact, 1 task" in closed.run("memory", "list")
    said = closed.run("memory", "add", "x", "--agent", "a", code=1)
    assert "read-only" in said
    assert "Traceback" not in said


@pytest.fixture
def full(team: Attached):
    """A workspace on a disk with no room left."""
    place = team.base / "ws"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        team.run("memory", "add", "The first fact", "--agent", "a")
        with (place / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
            while True:
                ballast.write(b"x" * 4096)
        yield team
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_fails_a_change_cleanly_and_keeps_what_was_there(full: Attached) -> None:
    before = (folder(full, "a") / "core_memories.json").read_bytes()
    said = full.run("memory", "add", "y" * 9_000, "--agent", "a", code=1)
    assert "disk is full" in said
    assert (folder(full, "a") / "core_memories.json").read_bytes() == before
    assert "The first fact" in full.run("memory", "list", "--agent", "a")
    assert [path.name for path in folder(full, "a").iterdir()] == ["core_memories.json"]
    (full.base / "ws/ballast").unlink()
    full.run("memory", "add", "y" * 9_000, "--agent", "a")


@pytest.mark.parametrize("command", ["list", "search", "show", "add", "forget", "import"])
def test_every_command_shows_an_example(team: Attached, command: str) -> None:
    said = team.run("memory", command, "--help")
    assert f"toolyard memory {command}" in said.partition("Examples:")[2]
    for option in ("--config", "--workspace", "--agent", "--state", "--json"):
        assert option in said
