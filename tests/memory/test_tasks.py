"""What an agent is doing, and what becomes of it when it is done."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from toolyard.core.errors import ToolError
from toolyard.files.roots import Root
from toolyard.memory import Memory
from toolyard.memory.tasks import Step, Tasks


def test_a_task_is_begun_worked_on_and_completed(root: Root, tmp_path: Path) -> None:
    tasks = Tasks(root, "a")
    assert tasks.current() is None
    task = tasks.begin("Build the site: Ünal's", ["Draw", "Write"])
    with pytest.raises(ToolError, match=r"Another task.*Complete it first"):
        tasks.begin("Something else")
    tasks.finish_step(2)
    with pytest.raises(ToolError, match="no step 3"):
        tasks.finish_step(3)
    file = tmp_path / "agents/a/tasks/current_task.yaml"
    written = yaml.safe_load(file.read_text())
    assert written["steps"] == [{"text": "Draw", "done": False}, {"text": "Write", "done": True}]
    file.write_text(file.read_text() + "mine: kept\n")
    done = tasks.complete("It is online")
    assert tasks.current() is None
    assert (done.id, done.outcome, done.entry["mine"]) == (task.id, "It is online", "kept")
    assert done.steps == (Step("Draw"), Step("Write", done=True))
    assert tasks.completed() == (done,)
    assert [(past.id, past.outcome) for past in Memory(root, "a").history()] == [(task.id, "It is online")]
    (kept,) = (tmp_path / "agents/a/tasks/completed_tasks").iterdir()
    assert "build-the-site" in kept.name
    with pytest.raises(ToolError, match="No task"):
        tasks.complete("again")


def test_a_task_that_was_interrupted_while_it_was_completed_is_remembered_once(root: Root, tmp_path: Path) -> None:
    tasks = Tasks(root, "a")
    tasks.begin("Build")
    file = tmp_path / "agents/a/tasks/current_task.yaml"
    before = file.read_text()
    tasks.complete("done")
    file.write_text(before)
    tasks.complete("done")
    assert len(Memory(root, "a").history()) == 1


def test_a_task_written_into_nonsense_is_left_alone(root: Root, tmp_path: Path) -> None:
    tasks = Tasks(root, "a")
    file = tmp_path / "agents/a/tasks/current_task.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("a: [")
    for act in (tasks.current, lambda: tasks.begin("x"), lambda: tasks.complete("x")):
        with pytest.raises(ToolError, match="left unchanged"):
            act()
    assert file.read_text() == "a: ["


def test_a_description_cannot_lead_a_file_elsewhere(root: Root, tmp_path: Path) -> None:
    tasks = Tasks(root, "a")
    tasks.begin("../../../up\0/" + "x" * 300)
    tasks.complete("done")
    (kept,) = (tmp_path / "agents/a/tasks/completed_tasks").iterdir()
    assert len(kept.name) < 120
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agents"]
