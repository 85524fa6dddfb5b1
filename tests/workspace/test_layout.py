"""The folders of a workspace: made once, by whoever comes first, and never through a link."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.barrier import together
from toolyard.config.models import Memory as Rules
from toolyard.core.agent_folder_names import folder_name
from toolyard.core.errors import SystemFault, ValidationError
from toolyard.core.permission_modes import Access
from toolyard.files.roots import Root
from toolyard.workspace.agent_view import build_agent_view
from toolyard.workspace.layout import create_layout, skills_folder

EVERYTHING = {
    "servers", "tools", "skills", "skills/community", "skills/a", "skills/b",
    "agents", "agents/a", "agents/a/workspace", "agents/a/memory", "agents/a/tasks",
    "agents/b", "agents/b/workspace", "agents/b/memory", "agents/b/tasks",
}  # fmt: skip


def folders(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir()}


def test_the_tree_is_made_and_what_is_there_stays(root: Root, tmp_path: Path) -> None:
    (tmp_path / "agents/a/memory").mkdir(parents=True)
    (tmp_path / "agents/a/memory/core_memories.json").write_text("[1]")
    for _ in range(2):
        create_layout(root, ["a", "b"])
    assert folders(tmp_path) == EVERYTHING
    assert (tmp_path / "agents/a/memory/core_memories.json").read_text() == "[1]"


def test_several_processes_make_it_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; from toolyard.files.roots import Root; from toolyard.workspace.layout import create_layout\n"
        "root = Root(sys.argv[1]); print('ready', flush=True); sys.stdin.readline(); create_layout(root, ['a', 'b'])"
    )
    with together(program, [[str(tmp_path)]] * 4) as running:
        assert [process.wait(30) for process in running] == [0, 0, 0, 0]
    assert folders(tmp_path) == EVERYTHING


def test_somebody_else_may_make_each_folder_in_the_very_moment_we_do(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def slower(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        with contextlib.suppress(FileExistsError):
            real(name, mode, dir_fd=dir_fd)
        real(name, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", slower)
        create_layout(root, ["a", "b"])
    assert folders(tmp_path) == EVERYTHING


@pytest.mark.parametrize("link", ["servers", "skills", "skills/community", "agents", "agents/a", "agents/a/memory"])
def test_no_link_takes_the_place_of_a_folder(root: Root, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(elsewhere)
    with pytest.raises(SystemFault, match=r"is a link.*plain folder"):
        create_layout(root, ["a"])
    assert list(elsewhere.iterdir()) == []


def test_a_file_in_the_place_of_a_folder_is_an_error_and_stays(root: Root, tmp_path: Path) -> None:
    (tmp_path / "tools").write_text("mine")
    with pytest.raises(SystemFault, match="folder tools cannot be made or used"):
        create_layout(root, [])
    assert (tmp_path / "tools").read_text() == "mine"


@pytest.mark.parametrize("name", ["agent_a", "a", "gpt-4.1", "A.b-c_d", "x" * 100])
def test_a_plain_name_is_its_own_folder(name: str) -> None:
    assert folder_name(name) == name


def test_other_names_have_one_spelling_each() -> None:
    names = ["the boss", "the/boss", "../boss", "..", ".", "-x", ".hidden", "böss", "x" * 101, "x" * 102]
    spelled = [folder_name(name) for name in names]
    assert spelled == [folder_name(name) for name in names]
    assert len(set(spelled)) == len(names)
    assert all("~" in name for name in spelled)
    assert folder_name("the boss") == "the-boss~3f5c255094"  # it names folders that are there
    assert skills_folder("community") == "skills/community"


@pytest.mark.parametrize("name", ["", " ", "community", "a\0b", "a\nb", "\ud800", "x" * 1_001])
def test_what_no_folder_can_be_called_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="not a valid agent name"):
        folder_name(name)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=200), st.text(max_size=200))
def test_every_name_is_one_safe_folder_of_its_own(one: str, other: str) -> None:
    try:
        names = folder_name(one), folder_name(other)
    except ValidationError:
        return
    for name in names:
        assert name not in {"", ".", ".."}
        assert not {"/", "\0"} & set(name)
        assert len(os.fsencode(name)) <= 255
    assert (names[0] == names[1]) == (one == other)


def test_an_agent_sees_its_own_to_write_and_the_rest_to_read() -> None:
    rules = {
        "a": Rules(allow_read_from=("b", "c"), allow_write_to=("c",)),
        "b": Rules(allow_read_from=("a",)),
    }
    seen = build_agent_view("/ws", "a", rules, attached=["/home/u/.claude/skills"])
    assert {entry.path: entry.access for entry in seen.context} == {
        "/ws/servers": Access.READ,
        "/ws/tools": Access.READ,
        "/ws/skills": Access.READ,
        "/ws/skills/community": Access.WRITE,
        "/ws/skills/a": Access.WRITE,
        "/ws/agents/a/memory": Access.WRITE,
        "/ws/agents/a/tasks": Access.WRITE,
        "/ws/agents/b/memory": Access.READ,
        "/ws/agents/c/memory": Access.WRITE,
        "/ws/shared": Access.READ,
        "/home/u/.claude/skills": Access.READ,
    }
    assert seen.links == {
        "servers": "/ws/servers",
        "tools": "/ws/tools",
        "skills": "/ws/skills",
        "memory": "/ws/agents/a/memory",
        "tasks": "/ws/agents/a/tasks",
        "shared": "/ws/shared",
    }


def test_what_lies_elsewhere_is_seen_and_linked_there() -> None:
    seen = build_agent_view("/ws", "a", {}, generated={"servers": ".toolyard/servers"}, shared="/temporary")
    assert (seen.links["servers"], seen.links["shared"]) == ("/ws/.toolyard/servers", "/temporary")
    assert {"/ws/.toolyard/servers", "/temporary"} <= {entry.path for entry in seen.context}
    assert not {"/ws/servers", "/ws/shared"} & {entry.path for entry in seen.context}


def test_an_agent_without_rules_sees_no_other_memory() -> None:
    seen = build_agent_view("/ws", "a", {"b": Rules(allow_write_to=("a",))})
    assert [entry.path for entry in seen.context if "memory" in entry.path] == ["/ws/agents/a/memory"]
