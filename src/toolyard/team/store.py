"""The state of a run in SQLite, `<run folder>/run.sqlite3`, from which it can be resumed.

Every finished step is written immediately: a model turn, its call results, an answer, a vote. A killed process loses
only the step that was running. A RunStore owns its connection until `close()` and is used from one thread.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.models.messages import ModelUsage
from toolyard.storage.disk_full import FREE_SPACE, check_descriptors, is_disk_full
from toolyard.storage.sqlite import create_private_file

STORE_FILE = "run.sqlite3"
_BUSY_SECONDS = 30.0
_START_ANOTHER_HINT = "If this file is damaged, the run cannot be resumed: start another run."
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agents (
    agent TEXT PRIMARY KEY, spent TEXT NOT NULL DEFAULT '{}', turns INTEGER NOT NULL DEFAULT 0,
    round INTEGER NOT NULL DEFAULT 0, conversation BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS work (
    round INTEGER NOT NULL, agent TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
    snapshot TEXT NOT NULL DEFAULT '', choice TEXT NOT NULL DEFAULT '', PRIMARY KEY (round, agent)
) WITHOUT ROWID;
"""
ANSWERED, VOTED, FAILED = "answered", "voted", "failed"

T = TypeVar("T")


class StateFault(SystemFault):
    """The state of a run cannot be read or written."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of an agent in one round."""

    round: int
    agent: str
    kind: str
    """ANSWERED, VOTED or FAILED."""
    text: str
    snapshot: str = ""
    choice: str = ""


@dataclass(frozen=True, slots=True)
class AgentState:
    """The saved state of one agent."""

    spent: ModelUsage = field(default_factory=ModelUsage)
    turns: int = 0
    round: int = 0
    """The round of the conversation."""
    conversation: bytes | None = None


class RunStore(Closeable):
    """Reads and writes the state of one run."""

    def __init__(self, folder: str) -> None:
        """Opens or creates the store. Raises StateFault."""
        self._path = os.path.join(folder, STORE_FILE)
        self._connection = self._run_guarded(self._open)

    def _open(self) -> sqlite3.Connection:
        create_private_file(self._path)
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")  # WAL survives a killed process with NORMAL
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        self._connection.close()

    # The run

    def begin(self, **facts: Any) -> None:
        """Saves the facts of a new run."""
        self.set_facts(version=_VERSION, began=time.time(), **facts)

    def set_facts(self, **facts: Any) -> None:
        """Saves facts by name, as JSON."""
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def fact(self, name: str, otherwise: Any = None) -> Any:
        """Returns a fact, or `otherwise` if it is not set."""
        row = self._fetch_row("SELECT value FROM facts WHERE name = ?", name)
        return otherwise if row is None else self._run_guarded(lambda: json.loads(row[0]))

    def required_fact(self, name: str) -> Any:
        """Returns a fact that every run has. Raises StateFault if the file lost it."""
        found = self.fact(name)
        if found is None:
            raise StateFault(
                f"The state of the run in {self._path} is damaged: it is empty.", hint=_START_ANOTHER_HINT
            )
        return found

    # The agents

    def agent(self, agent: str) -> AgentState:
        """Returns the saved state of an agent, or an empty one."""
        row = self._fetch_row("SELECT spent, turns, round, conversation FROM agents WHERE agent = ?", agent)
        if row is None:
            return AgentState()
        return self._run_guarded(lambda: AgentState(ModelUsage(**json.loads(row[0])), *row[1:]))

    def save_agent(self, agent: str, state: AgentState) -> None:
        """Saves the state of an agent, after each turn and after its calls."""
        values = (agent, json.dumps(dataclasses.asdict(state.spent)), state.turns, state.round, state.conversation)
        self._write("INSERT OR REPLACE INTO agents VALUES (?, ?, ?, ?, ?)", [values])

    def save_result(self, result: RoundResult) -> None:
        """Saves an answer, a vote or a failure durably."""
        values = (result.round, result.agent, result.kind, result.text, result.snapshot, result.choice)
        # This transaction also syncs all earlier ones, so the run's loop waits for the disk only once.
        self._run_guarded(lambda: self._connection.execute("PRAGMA synchronous=FULL"))
        try:
            self._write("INSERT OR REPLACE INTO work VALUES (?, ?, ?, ?, ?, ?)", [values])
        finally:
            self._run_guarded(lambda: self._connection.execute("PRAGMA synchronous=NORMAL"))

    def all_results(self) -> Iterator[RoundResult]:
        """Yields all results, by round and agent."""
        query = "SELECT round, agent, kind, text, snapshot, choice FROM work ORDER BY round, agent"
        for row in self._run_guarded(lambda: self._connection.execute(query).fetchall()):
            yield RoundResult(*row)

    # SQLite

    def _fetch_row(self, query: str, *values: Any) -> Any:
        return self._run_guarded(lambda: self._connection.execute(query, values).fetchone())

    def _write(self, query: str, rows: list[tuple[Any, ...]]) -> None:
        def work() -> None:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(query, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

        self._run_guarded(work)

    def _run_guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (TypeError, ValueError) as error:
            raise StateFault(
                f"The state of the run in {self._path} is damaged: {error}.", hint=_START_ANOTHER_HINT
            ) from error
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error):
                check_descriptors(error)
            full = isinstance(error, sqlite3.Error) and is_disk_full(error, self._path)
            why = "the disk is full" if full else str(error)
            hint = FREE_SPACE if full else f"Check the folder and its disk. {_START_ANOTHER_HINT}"
            raise StateFault(f"The state of the run cannot be saved in {self._path}: {why}.", hint=hint) from error
