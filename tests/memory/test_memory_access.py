"""Whose memory an agent reaches, and that searching reaches no further."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolyard.config.memory_access import reachable_agents
from toolyard.config.models import Agent, Config
from toolyard.config.models import Memory as Rules
from toolyard.core.errors import SecurityError
from toolyard.files.roots import Root
from toolyard.files.search import GrepQuery
from toolyard.memory import (
    Memory,
    MemoryAccess,
    grep_memories,
    may_access,
    memory_rules,
    require_access,
    search_memories,
)
from toolyard_runtime.ranking import rank, stemmed_words

RULES = {"a": Rules(allow_read_from=("b",), allow_write_to=("c",)), "b": Rules()}


@pytest.mark.parametrize(
    ("agent", "other", "read", "write"),
    [
        ("a", "a", True, True),
        ("a", "b", True, False),
        ("a", "c", True, True),
        ("a", "d", False, False),
        ("b", "a", False, False),
        ("b", "b", True, True),
        ("nobody", "a", False, False),
        ("nobody", "nobody", True, True),
    ],
)
def test_the_rules_say_who_reaches_whom(agent: str, other: str, read: bool, write: bool) -> None:
    assert may_access(agent, other, MemoryAccess.READ, RULES) is read
    assert may_access(agent, other, MemoryAccess.WRITE, RULES) is write


def test_a_refusal_says_what_would_allow_it() -> None:
    require_access("a", "b", MemoryAccess.READ, RULES)
    with pytest.raises(SecurityError, match=r"'a' may not write the memory of 'b'.*allow_write_to: \[b\]"):
        require_access("a", "b", MemoryAccess.WRITE, RULES)


def test_the_rules_come_from_the_configuration() -> None:
    config = Config(agents=(Agent(id="a", memory=RULES["a"]), Agent(id="b")))
    assert memory_rules(config) == RULES


NAMES = st.sampled_from(["a", "b", "c"])
ANY_RULES = st.dictionaries(NAMES, st.builds(Rules, allow_read_from=st.lists(NAMES), allow_write_to=st.lists(NAMES)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, NAMES, ANY_RULES)
def test_nobody_writes_what_it_may_not_read_or_was_not_given(agent: str, other: str, rules: dict) -> None:
    if may_access(agent, other, MemoryAccess.WRITE, rules):
        assert may_access(agent, other, MemoryAccess.READ, rules)
        assert agent == other or other in rules[agent].allow_write_to
    assert (other in reachable_agents(agent, MemoryAccess.READ, rules)) <= may_access(
        agent, other, MemoryAccess.READ, rules
    )


@pytest.fixture
def memories(root: Root) -> Root:
    Memory(root, "a").remember("Databases want an index", topic="performance")
    Memory(root, "a").note_pattern("Caching", "Keep query results of the database for a minute.")
    Memory(root, "a").set_preference("database", "PostgreSQL")
    Memory(root, "a").add_task("Tune the database", "Twice as fast")
    Memory(root, "b").remember("The database of b is slow")
    Memory(root, "d").remember("The database of d is secret")
    return root


def test_a_ranked_search_sees_what_the_agent_may_read(memories: Root) -> None:
    found = search_memories(memories, "a", "database", RULES)
    assert {(hit.agent, hit.file) for hit in found.hits} == {
        ("a", "core_memories.json"),
        ("a", "learned_patterns.md"),
        ("a", "preferences.yaml"),
        ("a", "task_history.json"),
        ("b", "core_memories.json"),
    }
    assert found.faults == ()
    assert search_memories(memories, "a", "performance indexes", RULES, top=1).hits[0].text.endswith("an index")
    assert search_memories(memories, "b", "secret", RULES).hits == ()


def test_a_file_that_cannot_be_read_does_not_end_the_search(memories: Root, tmp_path: Path) -> None:
    (tmp_path / "agents/a/memory/core_memories.json").write_text("{")
    found = search_memories(memories, "a", "database", RULES)
    assert len(found.hits) == 4
    assert len(found.faults) == 1
    assert "core_memories.json" in found.faults[0]


def test_ripgrep_sees_what_the_agent_may_read(memories: Root) -> None:
    query = GrepQuery("database", output_mode="content", case_insensitive=True)
    found = grep_memories(memories, "a", query, RULES)
    assert sorted(found.results) == ["a", "b"]
    assert "agents/b/memory/core_memories.json" in found.results["b"].text
    assert "slow" in found.results["b"].text
    assert found.results["a"].matches == 4


def test_a_link_leads_a_search_nowhere(memories: Root, tmp_path: Path) -> None:
    (tmp_path / "agents/c").mkdir()
    (tmp_path / "agents/c/memory").symlink_to(tmp_path / "agents/d/memory")
    grepped = grep_memories(memories, "a", GrepQuery("secret"), RULES)
    assert [result.lines for result in grepped.results.values()] == [(), ()]
    assert [("link" in fault) for fault in grepped.faults] == [True]
    found = search_memories(memories, "a", "secret", RULES)
    assert found.hits == ()
    assert all("link" in fault for fault in found.faults)
    assert len(found.faults) == 4
    assert search_memories(memories, "a", "slow", RULES).hits  # the others are searched all the same


def test_the_ranking_prefers_rare_words_and_knows_plain_endings() -> None:
    texts = ["the cat sat", "the dog sat", "the createIndex call", "the the the", "sat"]
    assert [position for _, position in rank("where the cats sat", texts, 9)] == [0, 4, 1]
    assert [position for _, position in rank("the", texts, 1)] == [3]
    assert [position for _, position in rank("indexes", texts, 9)] == [2]
    assert rank("", texts, 9) == rank("xyz", texts, 9) == rank("cat", [], 9) == []
    assert stemmed_words("queries query caching cached cache") == ["query", "query", "cach", "cach", "cach"]
