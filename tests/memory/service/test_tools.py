"""memory_search and memory_remember, and the file tools on memories: what the rules and the policy let through."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import jsonschema
import pytest

from toolyard.app.yard import Yard
from toolyard.core.calls import Result
from toolyard.core.errors import SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.permission_modes import PermissionMode
from toolyard.storage.audit_reader import RecordFilter, read
from toolyard.tools.memory import MEMORY_TOOLS

from .conftest import CONFIG, Team, use


def test_whoever_opens_a_workspace_does_not_wait_for_what_reads_memories() -> None:
    """Every client waits for what `toolyard mcp` loads before it answers."""
    program = (
        "import sys; import toolyard.app.yard, toolyard.tools.memory; "
        "print([name for name in sys.modules if name == 'yaml' or name.startswith('toolyard.memory.')])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert ended.stdout.strip() == "[]"


async def remember(yard: Yard, text: str, **more: object) -> Result:
    return await checked(yard, "memory_remember", text=text, **more)


async def search(yard: Yard, query: str, **more: object) -> Result:
    return await checked(yard, "memory_search", query=query, **more)


async def checked(yard: Yard, tool: str, /, **arguments: object) -> Result:
    result = await use(yard, tool, **arguments)
    output = next(each.output for each in MEMORY_TOOLS if each.name == tool)
    jsonschema.validate(result.structured, output, jsonschema.Draft202012Validator)
    return result


async def test_what_is_remembered_is_found_in_a_later_session(team: Team) -> None:
    yard = team.open("stranger")
    kept = await remember(yard, "The reports need an index", topic="performance")
    assert kept.structured["agent"] == "stranger"
    assert (await remember(yard, "The reports need an index", topic="performance")).structured == kept.structured
    yard.close()
    found = await search(team.open("stranger"), "which index for reports")
    assert found.structured["hits"][0] == {
        "agent": "stranger",
        "file": "core_memories.json",
        "id": kept.structured["id"],
        "text": "performance: The reports need an index",
        "score": found.structured["hits"][0]["score"],
    }
    assert "performance: The reports need an index" in found.text
    assert (await search(team.open("stranger"), "zebra")).text == "No memory matches."


@pytest.mark.parametrize(
    ("agent", "seen"),
    [
        ("reader", {"reader", "other"}),
        ("writer", {"writer", "other"}),
        ("stranger", {"stranger"}),
        ("other", {"other"}),
    ],
)
async def test_a_search_sees_what_the_agent_may_read(team: Team, agent: str, seen: set[str]) -> None:
    yard = team.open(agent)
    assert {hit["agent"] for hit in (await search(yard, "database")).structured["hits"]} == seen
    for other in seen:
        hits = (await search(yard, "database", agent=other)).structured["hits"]
        assert [hit["agent"] for hit in hits] == [other]


async def test_a_memory_that_is_not_open_is_neither_searched_nor_written(team: Team) -> None:
    yard = team.open("stranger")
    with pytest.raises(SecurityError, match=r"may not read the memory of 'other'.*allow_read_from: \[other\]"):
        await search(yard, "database", agent="other")
    before = team.file("other").read_bytes()
    for agent in ("stranger", "reader"):
        with pytest.raises(SecurityError, match=r"may not write the memory of 'other'.*allow_write_to: \[other\]"):
            await remember(team.open(agent), "mine", agent="other")
    assert team.file("other").read_bytes() == before
    with pytest.raises(ValidationError, match="no agent 'zebra'"):
        await search(yard, "database", agent="zebra")
    with pytest.raises(ValidationError, match="no agent"):
        await remember(yard, "x", agent="../other")


async def test_a_memory_that_is_open_for_writing_is_written(team: Team) -> None:
    kept = await remember(team.open("writer"), "Corrected", agent="other")
    assert kept.text == f"Remembered as {kept.structured['id']} in the memory of other."
    assert [fact.text for fact in team.memory("other").facts()][1:] == ["Corrected"]


async def test_the_file_tools_hold_the_same_rules(team: Team) -> None:
    path = str(team.file("other"))
    before = team.file("other").read_bytes()
    for agent, reads, writes in (("reader", True, False), ("stranger", False, False), ("writer", True, True)):
        yard = team.open(agent)
        attempts = {
            "Read": (reads, {"file_path": path}),
            "Grep": (reads, {"pattern": "slow", "path": path}),
            "Write": (writes, {"file_path": path, "content": before.decode()}),
            "Edit": (writes, {"file_path": path, "old_string": "slow", "new_string": "slow."}),
        }
        if reads:
            await use(yard, "Read", file_path=path)  # what is written was seen before
        for tool, (allowed, arguments) in attempts.items():
            if allowed:
                await use(yard, tool, **arguments)
                continue
            with pytest.raises(SecurityError):
                await use(yard, tool, **arguments)
            assert team.file("other").read_bytes() == before
        assert "slow" in (await use(yard, "Read", file_path="memory/core_memories.json")).text


async def test_a_refusal_is_recorded(team: Team) -> None:
    yard = team.open("stranger")
    with pytest.raises(SecurityError):
        await remember(yard, "mine", agent="other")
    await remember(yard, "mine")
    events = [record.event for record in read(yard.state, only=RecordFilter(tool="memory_remember"))]
    assert [event.outcome.value for event in events] == ["denied", "ok"]
    assert events[1].target == str(team.file("stranger"))


async def test_rules_of_the_user_hold_for_a_memory_too(team: Team) -> None:
    rule = f"Read({team.root}/agents/other/memory/core_memories.json)"
    (team.base / "team.yaml").write_text(CONFIG + json.dumps({"permissions": {"deny": [rule]}})[1:-1] + "\n")
    team.memory("other").note_pattern("Look first", "The database says why.")
    hits = (await search(team.open("reader"), "database")).structured["hits"]
    assert {(hit["agent"], hit["file"]) for hit in hits} == {
        ("reader", "core_memories.json"),
        ("other", "learned_patterns.md"),
    }


async def test_who_may_only_plan_reads_and_writes_nothing(team: Team) -> None:
    yard = team.open("stranger", PermissionMode.PLAN)
    assert (await search(yard, "database")).structured["hits"]
    with pytest.raises(SecurityError):
        await remember(yard, "mine")
    assert len(team.memory("stranger").facts()) == 1


async def test_nonsense_is_told_and_not_overwritten(team: Team) -> None:
    yard = team.open("reader")
    team.file("reader").write_bytes(b'[{"text": "precious",}]')
    with pytest.raises(ToolError, match=r"not JSON: line 1.*left unchanged\. A copy of it is"):
        await remember(yard, "mine")
    found = await search(yard, "database")
    assert [hit["agent"] for hit in found.structured["hits"]] == ["other"]
    assert "not JSON" in found.structured["faults"][0]
    assert "[agents/reader/memory/core_memories.json is not JSON" in found.text
    assert team.file("reader").read_bytes() == b'[{"text": "precious",}]'


async def test_a_long_entry_is_cut(team: Team) -> None:
    team.memory("stranger").remember("zebra " + "x" * 10_000)
    (hit,) = (await search(team.open("stranger"), "zebra")).structured["hits"]
    assert len(hit["text"]) == 2_001
    assert hit["text"].endswith("x…")


async def test_a_link_in_a_memory_leads_nowhere(team: Team) -> None:
    yard = team.open("reader")
    os.unlink(team.file("other"))
    team.file("other").symlink_to(team.file("stranger"))
    found = await search(yard, "database")
    assert [hit["agent"] for hit in found.structured["hits"]] == ["reader"]
    shutil.rmtree(team.file("reader").parent)
    team.file("reader").parent.symlink_to(team.file("stranger").parent)
    with pytest.raises(ToolyardError):
        await remember(yard, "mine")
    assert len(team.memory("stranger").facts()) == 1
