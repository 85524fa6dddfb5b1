"""What the real mem0 remembers is what is imported, while mem0 goes on being used."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e import published
from toolyard.files.roots import Root
from toolyard.memory import Memory
from toolyard.memory.mem0 import import_mem0, read_store

TOOLYARD = pathlib.Path(sys.executable).with_name("toolyard")
PROGRAM = pathlib.Path(__file__).with_name("mem0_program.py")


@pytest.fixture(scope="session")
def python() -> str:
    """With mem0 and what it can store things in. These are no dependencies of ours."""
    return published.python_server("mem0ai", "python")


class Mem0:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self.answer() == "ready"

    def answer(self):
        assert self.process.stdout is not None
        for line in self.process.stdout:  # libraries print what they like, too
            with contextlib.suppress(ValueError):
                return json.loads(line)
        raise AssertionError(self.process.communicate()[1])

    def __call__(self, *command: object):
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def add(self, text: str, **about: object) -> str:
        return self("add", text, about)["results"][0]["id"]


@contextlib.contextmanager
def running(python: str, kind: str, folder: pathlib.Path) -> Iterator[Mem0]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [python, str(PROGRAM), kind, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        try:
            yield Mem0(process)
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("kind", ["qdrant", "faiss", "chroma"])
def test_what_mem0_remembers_is_imported_once(python: str, kind: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "ws").mkdir()
    root = Root(str(tmp_path / "ws"))
    memory = Memory(root, "agent_a")
    memory.remember("mine")
    store = str(tmp_path / "store")
    with running(python, kind, tmp_path) as mem0:
        mem0.add("Likes tea", user_id="alice", agent_id="agent_a", metadata={"topic": "drinks", "n": 3, "sure": True})
        changed = mem0.add("Lives in Oslo 🏔", user_id="alice", run_id="r1")
        gone = mem0.add("Gone", user_id="alice")
        mem0("delete", gone)
        says = mem0("all", "alice")["results"]
        first = import_mem0(memory, read_store(store).memories)
        assert (first.added, first.refused) == (2, [])
        assert _imported(memory) == _told(says)
        assert import_mem0(memory, read_store(store).memories).unchanged == 2
        mem0("update", changed, "Lives in Bergen")
        mem0.add("Has a cat", user_id="alice")
        again = import_mem0(memory, read_store(store).memories)
        assert (again.added, again.updated, again.unchanged, again.kept) == (1, 1, 1, 0)
        assert _imported(memory) == _told(mem0("all", "alice")["results"])
    memory.forget(f"mem0-{changed}")
    assert import_mem0(memory, read_store(store).memories).forgotten == 1
    assert sorted(fact.text for fact in memory.facts()) == ["Has a cat", "Likes tea", "mine"]
    root.close()


def _toolyard(folder: pathlib.Path, *words: str):
    where = ("--config", str(folder / "team.yaml"), "--state", str(folder / "state"), "--json")
    ended = subprocess.run([TOOLYARD, "memory", *words, *where], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("kind", ["qdrant", "faiss", "chroma"])
def test_mem0_and_the_files_are_used_at_once(python: str, kind: str, tmp_path: pathlib.Path) -> None:
    """Whoever still uses mem0 imports again and again, and works on the facts meanwhile."""
    (tmp_path / "team.yaml").write_text("toolyard: {workspace: team}\nagents: [{id: writer}, {id: other}]\n")
    bring = ("import", "--from", "mem0", str(tmp_path / "store"), "--user", "alice", "--agent", "writer")
    with running(python, kind, tmp_path) as mem0:
        tea = mem0.add("Likes tea", user_id="alice")
        mem0.add("Belongs to bob", user_id="bob")
        first = _toolyard(tmp_path, *bring, "--dry-run")
        assert (first["added"], first["others"], first["kind"]) == (1, 1, kind)
        assert _toolyard(tmp_path, *bring)["added"] == 1
        _toolyard(tmp_path, "add", "Deploy on Tuesdays", "--agent", "writer")
        mem0("update", tea, "Likes green tea")
        mem0.add("Has a cat", user_id="alice")
        again = _toolyard(tmp_path, *bring)
        assert (again["added"], again["updated"], again["unchanged"]) == (1, 1, 0)
        assert _toolyard(tmp_path, *bring)["unchanged"] == 2
        (found, *_) = _toolyard(tmp_path, "search", "which tea does she like", "--agent", "writer")
        assert (found["id"], found["text"]) == (f"mem0-{tea}", "Likes green tea")
        assert _toolyard(tmp_path, "forget", f"mem0-{tea}", "--agent", "writer")["id"] == f"mem0-{tea}"
        assert _toolyard(tmp_path, *bring)["forgotten"] == 1
        assert sorted(row["memory"] for row in mem0("all", "alice")["results"]) == ["Has a cat", "Likes green tea"]
    file = tmp_path / "team/agents/writer/memory/core_memories.json"
    assert sorted(fact["text"] for fact in json.loads(file.read_text())) == ["Deploy on Tuesdays", "Has a cat"]


def _imported(memory: Memory) -> list[dict]:
    found = [fact for fact in memory.facts() if fact.source]
    rows = [
        {
            "id": fact.source["id"],
            "memory": fact.text,
            "hash": fact.source["hash"],
            "metadata": dict(fact.metadata),
            "created_at": fact.created_at,
            "updated_at": fact.updated_at,
            **{key: fact.source[key] for key in ("user_id", "agent_id", "run_id", "role") if key in fact.source},
        }
        for fact in found
    ]
    return sorted(rows, key=lambda row: row["id"])


def _told(results: list[dict]) -> list[dict]:
    rows = [{**row, "metadata": row["metadata"] or {}} for row in results]
    return sorted(rows, key=lambda row: row["id"])
