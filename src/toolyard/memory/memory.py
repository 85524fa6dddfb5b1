"""One agent's memory: four files in `agents/<agent>/memory/`, which code may also read and write as plain files.

    core_memories.json    facts                    a JSON list        facts.py
    task_history.json     finished tasks           a JSON list        task_history.py
    learned_patterns.md   what worked              Markdown           learned_patterns.py
    preferences.yaml      the user's preferences   YAML, one level    preferences.py

Every change is made under the lock of the folder and replaces its file atomically, so concurrent writers in any
number of threads and processes lose nothing. `config/memory_access.py` decides who may open whose memory; the caller
has to check it. A Memory owns nothing; the Root belongs to its caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolyard.config.yaml_tree import Plain
from toolyard.core.errors import ToolError
from toolyard.files.locked_document import LockedDocument, parse_list, write_list
from toolyard.files.roots import Root
from toolyard.memory import facts, preferences
from toolyard.memory import learned_patterns as patterns
from toolyard.memory import task_history as history
from toolyard.memory.facts import Fact
from toolyard.memory.learned_patterns import Pattern
from toolyard.memory.preferences import Preferences
from toolyard.memory.task_history import PastTask
from toolyard.workspace import layout
from toolyard_runtime.memory_entries import FACTS, HISTORY, PATTERNS, PREFERENCES

__all__ = ["FACTS", "HISTORY", "PATTERNS", "PREFERENCES", "Memory"]


class Memory:
    """Facts, history, patterns and preferences of one agent."""

    def __init__(self, root: Root, agent: str) -> None:
        self.agent = agent
        self.folder = layout.agent_folder(agent, layout.MEMORY)
        self.facts_file = LockedDocument(root, self.folder, FACTS, parse_list, write_list)
        self.history_file = LockedDocument(root, self.folder, HISTORY, parse_list, write_list)
        self.patterns_file = LockedDocument(root, self.folder, PATTERNS, patterns.parse, patterns.serialize)
        self.preferences_file = LockedDocument(
            root, self.folder, PREFERENCES, preferences.parse, preferences.serialize, preferences.FILE_BYTES
        )

    # Facts

    def facts(self) -> tuple[Fact, ...]:
        return tuple(Fact(entry) for entry in self.facts_file.read())

    def remember(self, text: str, topic: str = "", metadata: Mapping[str, Any] | None = None) -> Fact:
        """Stores a fact and returns it. If a fact with the same text and topic exists, that one is returned."""
        entry = facts.new_entry(text, topic, metadata)
        fact = Fact(entry)

        def change(entries: list[Any]) -> list[Any]:
            nonlocal fact
            for known in map(Fact, entries):
                if (known.text, known.topic) == (text, topic):
                    fact = known
                    return entries
            return facts.add_entries(entries, [entry])

        self.facts_file.change(change)
        return fact

    def forget(self, identity: str) -> Fact:
        """Removes a fact and returns it. Raises ToolError if there is no fact with that id."""
        gone: list[Fact] = []

        def change(entries: list[Any]) -> list[Any]:
            gone[:] = [fact for fact in map(Fact, entries) if fact.id == identity]
            if not gone:
                raise ToolError(f"There is no fact {identity}.", hint="List the facts to see their ids.")
            return [entry for entry in entries if Fact(entry).id != identity]

        self.facts_file.change(change)
        return gone[0]

    # Task history

    def history(self) -> tuple[PastTask, ...]:
        return tuple(PastTask(entry) for entry in self.history_file.read())

    def add_task(self, description: str, outcome: str, details: Mapping[str, Any] | None = None) -> PastTask:
        """Adds a finished task. A task whose `id` is already in the history is not added again."""
        entry = history.new_entry(description, outcome, details)
        self.history_file.change(lambda entries: history.add_entry(entries, entry))
        return PastTask(entry)

    # Patterns

    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(patterns.patterns_in(self.patterns_file.read()))

    def note_pattern(self, title: str, text: str) -> None:
        self.patterns_file.change(lambda page: patterns.add_pattern(page, Pattern(title, text)))

    # Preferences

    def preferences(self) -> Preferences:
        return self.preferences_file.read()

    def set_preference(self, key: str, value: Plain) -> None:
        preferences.check_preference(key, value)
        self.preferences_file.change(lambda known: {**known, key: value})

    def drop_preference(self, key: str) -> None:
        self.preferences_file.change(lambda known: {name: value for name, value in known.items() if name != key})

    def set_aside(self) -> tuple[str, ...]:
        """Renames every unreadable file, so that the memory works again; returns the new names."""
        files = (self.facts_file, self.history_file, self.patterns_file, self.preferences_file)
        return tuple(name for file in files if (name := file.set_aside()) is not None)
