"""Code in the sandbox and its memory: plain files, the helpers, the search commands, and the walls around others'."""

from __future__ import annotations

import asyncio
import json
import shutil
import sysconfig

import pytest

from toolyard.app.yard import Yard

from .conftest import Team, use


async def run(yard: Yard, code: str) -> str:
    return (await use(yard, "execute_python", code=code)).text


PLAIN = """
import json
with open("memory/core_memories.json") as file:
    memories = json.load(file)
memories.append({"topic": "plain", "text": "Written as a plain file"})
with open("memory/core_memories.json", "w") as file:
    json.dump(memories, file)
"""


async def test_plain_files_are_the_memory(team: Team) -> None:
    yard = team.open("stranger")
    await run(yard, PLAIN)
    assert [fact.text for fact in team.memory("stranger").facts()] == [
        "The database of stranger is slow",
        "Written as a plain file",
    ]


HELPERS = """
from toolyard_runtime import memory
import json
fact = memory.remember("The reports need an index", topic="databases")
memory.add_task("Speed up the reports", "Twice as fast")
memory.note_pattern("Look first", "EXPLAIN says which index is missing.")
gone = memory.remember("wrong")
memory.forget(gone["id"])
print(json.dumps([hit["file"] for hit in memory.recall("which index is missing")]))
"""


@pytest.mark.usefixtures("walls")
async def test_the_helpers_keep_what_the_host_reads(team: Team) -> None:
    shown = await run(team.open("stranger"), HELPERS)
    assert json.loads(shown.strip().splitlines()[-1]) == ["learned_patterns.md", "core_memories.json"]
    kept = team.memory("stranger")
    assert [fact.text for fact in kept.facts()] == ["The database of stranger is slow", "The reports need an index"]
    assert [task.outcome for task in kept.history()] == ["Twice as fast"]
    assert [pattern.title for pattern in kept.patterns()] == ["Look first"]


TRYING = """
from toolyard_runtime import memory
import json, os
def tried(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
path = "{root}/agents/other/memory/core_memories.json"
def replace():
    with open(path, "w") as file:
        return file.write('["plain"]')
print(json.dumps([
    tried(lambda: [fact["text"] for fact in memory.facts("other")]),
    tried(lambda: open(path).read()),
    bool(isinstance(tried(lambda: memory.remember("noted", agent="other")), dict)),
    tried(replace),
    tried(lambda: os.unlink(path)),
]))
"""
SAYS = "The database of other is slow"


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize(
    ("agent", "reads", "writes"), [("reader", True, False), ("writer", True, True), ("stranger", False, False)]
)
async def test_the_memory_of_others_is_as_open_as_the_rules_say(
    team: Team, agent: str, reads: bool, writes: bool
) -> None:
    yard = team.open(agent)
    before = team.file("other").read_bytes()
    shown = await run(yard, TRYING.replace("{root}", str(team.root)))
    helper, plain, noted, *changed = json.loads(shown.strip().splitlines()[-1])
    assert (helper == [SAYS]) is reads
    assert (SAYS in plain) is reads
    assert noted is writes
    if writes:
        assert changed == [9, None]
        assert not team.file("other").exists()
    else:
        assert all(isinstance(each, str) for each in changed)
        assert team.file("other").read_bytes() == before
        assert [path.name for path in team.file("other").parent.iterdir()] == ["core_memories.json"]


@pytest.mark.usefixtures("walls")
async def test_the_commands_of_the_guide_search_a_memory(team: Team) -> None:
    yard = team.open("reader")
    team.memory("reader").remember("use caches", topic="performance")
    found = (await use(yard, "Bash", command='rg "DATABASE OF" memory/ -i')).text
    assert "The database of reader is slow" in found
    assert SAYS in (await use(yard, "Bash", command=f"rg database {team.root}/agents/other/memory/")).text
    denied = (await use(yard, "Bash", command=f"rg database {team.root}/agents/stranger/memory/")).text
    assert "slow" not in denied


BY_TOPIC = """ast-grep scan --json --inline-rules '{id: topic, language: json, rule: {kind: object,
  has: {kind: pair, pattern: {context: "{\\"topic\\": \\"performance\\"}", selector: pair}}}}' memory/*.json"""


@pytest.mark.skipif(
    shutil.which("ast-grep", path=sysconfig.get_path("scripts")) is None, reason="the extra code is not installed"
)
async def test_ast_grep_finds_entries_by_their_topic(team: Team) -> None:
    yard = team.open("reader")
    team.memory("reader").remember("use caches", topic="performance")
    found = (await use(yard, "Bash", command=BY_TOPIC)).text
    assert "use caches" in found
    assert "slow" not in found


EACH = 6
WRITING = """
from toolyard_runtime import memory
for number in range({each}):
    memory.remember(f"{who} {{number}}", agent="other")
"""


@pytest.mark.timeout(120)
async def test_the_host_and_several_sandboxes_that_write_at_once_lose_nothing(team: Team) -> None:
    yards = {agent: team.open(agent) for agent in ("writer", "other")}
    for yard in yards.values():
        await run(yard, "1")  # each has its sandbox

    def host() -> None:
        for number in range(EACH):
            team.memory("other").remember(f"host {number}")

    tool = [use(yards["writer"], "memory_remember", text=f"tool {number}", agent="other") for number in range(EACH)]
    code = [run(yard, WRITING.format(each=EACH, who=agent)) for agent, yard in yards.items()]
    await asyncio.gather(asyncio.to_thread(host), *code, *tool)
    wanted = sorted(f"{who} {number}" for who in ("host", "tool", *yards) for number in range(EACH))
    assert sorted(fact.text for fact in team.memory("other").facts()) == sorted([SAYS, *wanted])
