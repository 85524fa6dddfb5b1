"""One agent's memory: four files in `agents/<agent>/memory/`, which code may also read and write as plain files.

    core_memories.json    facts                    a JSON list        facts.py
    task_history.json     what was done            a JSON list        task_history.py
    learned_patterns.md   what worked              Markdown           learned_patterns.py
    preferences.yaml      what the user likes      YAML, one level    preferences.py

Every change is made under the lock of the folder and replaces its file in one step: writers in any number of threads
and processes lose nothing of each other's. `config/memory_access.py` decides who may open whose memory; the caller
has to check it. A Memory owns nothing; the Root is its caller's.
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
        """Keep a fact. One that is known already, word for word and with the same topic, is not kept twice."""
        entry = facts.new_entry(text, topic, metadata)
        kept = Fact(entry)

        def change(entries: list[Any]) -> list[Any]:
            nonlocal kept
            for known in map(Fact, entries):
                if (known.text, known.topic) == (text, topic):
                    kept = known
                    return entries
            return facts.add_entries(entries, [entry])

        self.facts_file.change(change)
        return kept

    def forget(self, identity: str) -> Fact:
        """Take a fact out. Raises ToolError when there is none of that id."""
        gone: list[Fact] = []

        def change(entries: list[Any]) -> list[Any]:
            gone[:] = [fact for fact in map(Fact, entries) if fact.id == identity]
            if not gone:
                raise ToolError(f"There is no fact {identity}.", hint="List the facts to see their ids.")
            return [entry for entry in entries if Fact(entry).id != identity]

        self.facts_file.change(change)
        return gone[0]

    # What was done

    def history(self) -> tuple[PastTask, ...]:
        return tuple(PastTask(entry) for entry in self.history_file.read())

    def add_task(self, description: str, outcome: str, details: Mapping[str, Any] | None = None) -> PastTask:
        """Add a task that is over. One with the `id` of a task that is there already is not added again."""
        entry = history.new_entry(description, outcome, details)
        self.history_file.change(lambda entries: history.add_entry(entries, entry))
        return PastTask(entry)

    # What worked

    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(patterns.patterns_in(self.patterns_file.read()))

    def note_pattern(self, title: str, text: str) -> None:
        self.patterns_file.change(lambda page: patterns.add_pattern(page, Pattern(title, text)))

    # What the user likes

    def preferences(self) -> Preferences:
        return self.preferences_file.read()

    def set_preference(self, key: str, value: Plain) -> None:
        preferences.check_preference(key, value)
        self.preferences_file.change(lambda known: {**known, key: value})

    def drop_preference(self, key: str) -> None:
        self.preferences_file.change(lambda known: {name: value for name, value in known.items() if name != key})

    def set_aside(self) -> tuple[str, ...]:
        """Move every file that cannot be read out of the way, so that the memory works again. Their new names."""
        files = (self.facts_file, self.history_file, self.patterns_file, self.preferences_file)
        return tuple(name for file in files if (name := file.set_aside()) is not None)
