"""What an agent is doing: `tasks/current_task.yaml`, and `tasks/completed_tasks/` with one file per finished task.

    id: 3f0c…
    description: Build the site
    started: 2026-01-31T10:00:00+00:00
    steps:
    - text: Draw the pages
      done: true
    notes: Anything.

Unknown keys are preserved. A finished task is written to `completed_tasks/` with its outcome, and then to the
memory's history. If the process is killed in between, completing it again finds the task by its id and does not add
it twice.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from toolyard.config.yaml_tree import parse_yaml
from toolyard.core.errors import ConfigError, ToolError
from toolyard.core.ids import new_id
from toolyard.files.locked_document import LockedDocument, UnreadableFile, decode_text
from toolyard.files.roots import Root
from toolyard.files.safe_paths import ensure_folder, open_folder, rewrite_file
from toolyard.files.timestamps import utc_timestamp
from toolyard.memory.facts import check_text
from toolyard.memory.memory import Memory
from toolyard.workspace import layout

CURRENT, COMPLETED = "current_task.yaml", "completed_tasks"
_FILE_BYTES = 1 << 20
_MOST_TEXT = 20_000
_SLUG = re.compile(r"[^a-z0-9]+")
_MOST_SLUG = 40

TaskEntry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """The current task or a completed one."""

    entry: TaskEntry

    @property
    def id(self) -> str:
        return str(self.entry.get("id", ""))

    @property
    def description(self) -> str:
        return str(self.entry.get("description", ""))

    @property
    def outcome(self) -> str:
        return str(self.entry.get("outcome", ""))

    @property
    def steps(self) -> tuple[Step, ...]:
        given = self.entry.get("steps")
        items = cast("list[Any]", given) if isinstance(given, list) else []
        return tuple(_parse_step(item) for item in items)


def _parse_step(item: Any) -> Step:
    if isinstance(item, dict):
        known = cast("TaskEntry", item)
        return Step(str(known.get("text", "")), known.get("done") is True)
    return Step(str(item))


class Tasks:
    """The current and the completed tasks of one agent."""

    def __init__(self, root: Root, agent: str) -> None:
        self._root = root
        self._memory = Memory(root, agent)
        self.folder = layout.agent_folder(agent, layout.TASKS)
        self.current_file = LockedDocument(root, self.folder, CURRENT, _parse, _serialize, _FILE_BYTES)

    def current(self) -> Task | None:
        entry = self.current_file.read()
        return Task(entry) if entry else None

    def begin(self, description: str, steps: Sequence[str] = ()) -> Task:
        """Starts a task. Raises ToolError if another task is in progress."""
        check_text("description", description, _MOST_TEXT)
        entry: TaskEntry = {"id": new_id(), "description": description, "started": utc_timestamp()}
        if steps:
            entry["steps"] = [{"text": step, "done": False} for step in steps]

        def change(known: TaskEntry) -> TaskEntry:
            if known:
                raise ToolError(f"Another task is in progress: {Task(known).description}.", hint="Complete it first.")
            return entry

        return Task(self.current_file.change(change))

    def finish_step(self, number: int) -> Task:
        """Marks a step as done; numbers start at 1."""

        def change(known: TaskEntry) -> TaskEntry:
            steps = list(Task(known).steps)
            if not 1 <= number <= len(steps):
                raise ToolError(f"There is no step {number}; the task has {len(steps)}.", hint="Look at the task.")
            steps[number - 1] = Step(steps[number - 1].text, done=True)
            return {**known, "steps": [{"text": step.text, "done": step.done} for step in steps]}

        return Task(self.current_file.change(change))

    def complete(self, outcome: str) -> Task:
        """Finishes the current task: stores it with its outcome and adds it to the memory's history."""
        check_text("outcome", outcome, _MOST_TEXT)
        known = self.current_file.read()
        if not known:
            raise ToolError("No task is in progress.", hint="Begin one first.")
        done = {"id": new_id(), **known, "outcome": outcome, "finished": utc_timestamp()}
        task = Task(done)
        completed = f"{self.folder}/{COMPLETED}"
        ensure_folder(self._root, completed)
        data = _serialize(done, b"")
        rewrite_file(self._root, f"{completed}/{_file_name(task)}", lambda _: data, _FILE_BYTES)
        started = done.get("started")
        self._memory.add_task(
            task.description or "(no description)",
            outcome,
            {"id": task.id, "started": started} if started else {"id": task.id},
        )
        self.current_file.change(lambda now_there: {} if now_there.get("id") == known.get("id") else now_there)
        return task

    def completed(self) -> tuple[Task, ...]:
        """Returns the finished tasks, oldest first. Files that cannot be read are skipped."""
        folder = open_folder(self._root, f"{self.folder}/{COMPLETED}")
        if folder is None:
            return ()
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".yaml"))
        finally:
            os.close(folder)
        found: list[Task] = []
        for name in names:
            document = LockedDocument(self._root, f"{self.folder}/{COMPLETED}", name, _parse, _serialize, _FILE_BYTES)
            with contextlib.suppress(ToolError):
                found.append(Task(document.read()))
        return tuple(found)


def _file_name(task: Task) -> str:
    slug = _SLUG.sub("-", task.description.lower())[:_MOST_SLUG].strip("-") or "task"
    day = str(task.entry["finished"]).replace(":", "")[:17]
    return f"{day}-{slug}-{_SLUG.sub('', task.id.lower())[:_MOST_SLUG]}.yaml"


def _parse(data: bytes) -> TaskEntry:
    try:
        located = parse_yaml(decode_text(data), name="line")
    except ConfigError as error:
        raise UnreadableFile(f"is not plain YAML: {error.message}") from None
    plain = None if located is None else located.to_plain()
    if plain is None:
        return {}
    if not isinstance(plain, dict):
        raise UnreadableFile("has to be keys and values, as in `description: Build the site`")
    return cast("TaskEntry", plain)


def _serialize(entry: TaskEntry, _: bytes) -> bytes:
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True).encode("utf-8", "replace") if entry else b""
