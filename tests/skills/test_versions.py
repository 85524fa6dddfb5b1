"""A skill is replaced whole, its former versions stay, and where it came from is known."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.files.roots import Root
from toolyard.skills import (
    Skill,
    find_skill,
    list_skills,
    promote,
    remove,
    restore,
    save,
    skill_files,
    store,
    versions,
)
from toolyard.skills.usage_stats import UsageStats


def skill(value: int = 1, name: str = "s") -> Skill:
    return Skill(name, f"x = {value}", "Says x.")


def code(folder: Path) -> str:
    return (folder / "__init__.py").read_text().splitlines()[-1]


def test_each_save_keeps_the_former(root: Root, tmp_path: Path) -> None:
    for value in (1, 2, 3):
        save(root, "a", skill(value))
    assert code(tmp_path / "skills/a/s") == "x = 3"
    kept = tmp_path / "skills/a/.versions/s"
    assert {path.name: code(path) for path in kept.iterdir() if path.is_dir()} == {"1": "x = 1", "2": "x = 2"}
    known = versions(root, "a", "s")
    assert [(version.number, version.agent, version.note) for version in known] == [
        (1, "a", ""),
        (2, "a", ""),
        (3, "a", ""),
    ]
    assert len({version.hash for version in known}) == 3
    assert all(version.time.startswith("20") for version in known)


def test_only_the_newest_versions_are_kept(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT_VERSIONS", 2)
    for value in range(6):
        save(root, "a", skill(value))
    kept = tmp_path / "skills/a/.versions/s"
    assert {code(path) for path in kept.iterdir() if path.is_dir()} == {"x = 3", "x = 4"}
    with pytest.raises(ToolError, match="Version 1 of a/s is no longer stored"):
        restore(root, "a", "s", 1, by="a")


def test_other_files_of_a_skill_stay_when_its_code_is_saved_again(root: Root, tmp_path: Path) -> None:
    save(root, "a", skill(1))
    folder = tmp_path / "skills/a/s"
    (folder / "scripts").mkdir()
    (folder / "scripts/run.sh").write_text("#!/bin/sh\n")
    (folder / "scripts/run.sh").chmod(0o755)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/x.pyc").write_bytes(b"")
    (folder / "leads").symlink_to("/etc/passwd")
    save(root, "a", skill(2))
    assert sorted(path.name for path in folder.iterdir()) == ["SKILL.md", "__init__.py", "scripts"]
    assert os.access(folder / "scripts/run.sh", os.X_OK)
    assert (tmp_path / "skills/a/.versions/s/2/leads").is_symlink()  # nothing of the former is lost


def test_what_was_edited_by_hand_is_a_version_of_its_own(root: Root, tmp_path: Path) -> None:
    save(root, "a", skill(1))
    (entry,) = list_skills(root)
    assert not entry.edited
    (tmp_path / "skills/a/s/__init__.py").write_text("x = 'by hand'\n")
    (entry,) = list_skills(root)
    assert entry.edited
    save(root, "a", skill(2))
    assert [(version.number, version.note) for version in versions(root, "a", "s")] == [
        (1, ""),
        (2, "edited by hand"),
        (3, ""),
    ]
    assert code(tmp_path / "skills/a/.versions/s/2") == "x = 'by hand'"
    restore(root, "a", "s", 2, by="a")
    assert code(tmp_path / "skills/a/s") == "x = 'by hand'"
    assert versions(root, "a", "s")[-1].note == "restored version 2"


def test_a_removed_skill_can_be_restored(root: Root, tmp_path: Path) -> None:
    save(root, "a", skill(1))
    remove(root, "a", "s", by="a")
    assert list_skills(root) == ()
    assert versions(root, "a", "s")[-1].note == "removed"
    with pytest.raises(ToolError, match=r"no skill a/s"):
        remove(root, "a", "s", by="a")
    restore(root, "a", "s", 1, by="")
    assert code(tmp_path / "skills/a/s") == "x = 1"
    save(root, "a", skill(2))
    assert len({version.number for version in versions(root, "a", "s")}) == len(versions(root, "a", "s"))


def test_a_promoted_skill_says_where_it_came_from(root: Root, tmp_path: Path) -> None:
    save(root, "a", skill(1))
    assert promote(root, "a", "s") == "skills/community/s"
    page = (tmp_path / "skills/community/s/SKILL.md").read_text()
    assert "from skills.community.s import *" in page
    assert "skills.a." not in page
    (known,) = versions(root, "community", "s")
    source, _, digest = known.promoted_from.partition("@")
    assert (source, digest, known.agent) == ("a/s", versions(root, "a", "s")[0].hash, "a")
    save(root, "a", skill(2))
    promote(root, "a", "s")
    assert code(tmp_path / "skills/community/s") == "x = 2"
    save(root, "b", skill(9))
    with pytest.raises(ToolError, match=r"not from b.*another name"):
        promote(root, "b", "s")
    promote(root, "b", "s", replace=True)
    assert code(tmp_path / "skills/community/s") == "x = 9"
    found = find_skill(root, "s", "a")
    assert found is not None
    assert found.owner == "a"
    with pytest.raises(ToolError, match="no skill a/nothing"):
        promote(root, "a", "nothing")


def test_nobody_changes_anothers_skills(root: Root) -> None:
    save(root, "a", skill(1))
    save(root, "a", skill(2))
    for act in (lambda: remove(root, "a", "s", by="b"), lambda: restore(root, "a", "s", 1, by="b")):
        with pytest.raises(SecurityError, match="'b' may not change the skills of 'a'"):
            act()
    promote(root, "a", "s")
    remove(root, "community", "s", by="b")
    remove(root, "a", "s", by="")


@pytest.mark.parametrize("name", ["../s", "a/b", "..", "", ".versions", "class"])
def test_no_name_leads_out(root: Root, name: str) -> None:
    for act in (
        lambda: remove(root, "a", name, by="a"),
        lambda: versions(root, "a", name),
        lambda: restore(root, "a", name, 1, by="a"),
        lambda: promote(root, "a", name),
    ):
        with pytest.raises(ValidationError, match="not a valid skill name"):
            act()


def test_agents_whose_name_is_no_folder_keep_skills_too(root: Root, tmp_path: Path) -> None:
    path = save(root, "../up", skill(1))
    assert path.startswith("skills/up~")
    assert (tmp_path / path / "SKILL.md").is_file()
    with pytest.raises(ValidationError, match="not a valid agent name"):
        save(root, "community", skill(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["skills"]


def test_what_a_killed_writer_left_becomes_a_version(root: Root, tmp_path: Path) -> None:
    save(root, "a", skill(1))
    left = tmp_path / "skills/a/.toolyard-tmp-s.0123456789ab"
    left.mkdir()
    (left / "__init__.py").write_text("x = 'precious'\n")
    save(root, "a", skill(2))
    assert not left.exists()
    (kept,) = [
        folder
        for folder in (tmp_path / "skills/a/.versions/s").iterdir()
        if folder.is_dir() and code(folder) == "x = 'precious'"
    ]
    assert [version.note for version in versions(root, "a", "s") if version.number == int(kept.name)] == [
        "left by an interrupted save"
    ]
    numbers = [version.number for version in versions(root, "a", "s")]
    assert len(set(numbers)) == len(numbers)


def test_a_writer_that_dies_in_the_middle_loses_nothing(root: Root, tmp_path: Path) -> None:
    save(root, "a", skill(1))
    program = (
        "import os, sys; from toolyard.files.roots import Root\n"
        "from toolyard.skills import Skill, save, store\n"
        "store._SkillFolder._archive_folder = lambda *_: os._exit(9)\n"
        "save(Root(sys.argv[1]), 'a', Skill('s', 'x = 2', 'Says x.'))"
    )
    died = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=50, check=False)
    assert died.returncode == 9
    assert code(tmp_path / "skills/a/s") == "x = 2"
    assert list_skills(root)[0].name == "s"
    save(root, "a", skill(3))
    kept = [path for path in (tmp_path / "skills/a/.versions/s").iterdir() if path.is_dir()]
    assert {code(path) for path in kept} == {"x = 1", "x = 2"}
    assert code(tmp_path / "skills/a/s") == "x = 3"


def test_a_broken_record_keeps_nobody_from_saving(root: Root, tmp_path: Path) -> None:
    save(root, "a", skill(1))
    record = tmp_path / "skills/a/.versions/s/versions.json"
    record.write_text("{")
    save(root, "a", skill(2))
    assert [path.read_text() for path in record.parent.glob("versions.json.unreadable-*")] == ["{"]
    assert {code(path) for path in record.parent.iterdir() if path.is_dir()} == {"x = 1"}
    assert list_skills(root)[0].fault == ""


@pytest.mark.parametrize("link", ["skills/a/.versions", "skills/a/.versions/s"])
def test_versions_go_through_no_link(root: Root, tmp_path: Path, link: str) -> None:
    save(root, "a", skill(1))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = tmp_path / link
    place.rename(tmp_path / "aside")
    place.symlink_to(elsewhere)
    with pytest.raises((SystemFault, SecurityError), match="link"):
        save(root, "a", skill(2))
    assert list(elsewhere.iterdir()) == []
    assert code(tmp_path / "skills/a/s") == "x = 1"


def test_parallel_saves_leave_one_whole_skill_and_every_other_as_a_version(root: Root, tmp_path: Path) -> None:
    def keep(value: int) -> None:
        save(root, "a", skill(value))

    threads = [threading.Thread(target=keep, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    folders = [tmp_path / "skills/a/s", *(tmp_path / "skills/a/.versions/s").glob("[0-9]*")]
    assert {code(folder) for folder in folders} == {f"x = {value}" for value in range(4)}
    assert len(versions(root, "a", "s")) == 4


def test_a_disk_without_exchange_serves_as_well(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(store, "exchange", unsupported)
    save(root, "a", skill(1))
    save(root, "a", skill(2))
    assert code(tmp_path / "skills/a/s") == "x = 2"
    assert code(tmp_path / "skills/a/.versions/s/1") == "x = 1"


def test_a_full_disk_changes_nothing(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(root, "a", skill(1))
    written = skill_files._write_file

    def full(folder: int, path: str, file: skill_files.SkillFile) -> None:
        if path == "__init__.py":
            raise OSError(errno.ENOSPC, "No space left on device")
        written(folder, path, file)

    monkeypatch.setattr(skill_files, "_write_file", full)
    with pytest.raises(SystemFault, match="disk is full; nothing was changed"):
        save(root, "a", skill(2))
    assert code(tmp_path / "skills/a/s") == "x = 1"
    assert sorted(path.name for path in (tmp_path / "skills/a").iterdir()) == [".versions", "s"]


def test_uses_are_counted_in_the_state_folder(root: Root, tmp_path: Path) -> None:
    uses = UsageStats(root)
    assert uses.count_for("a/s") == 0
    uses.add("a/s", "a")
    uses.add("a/s", "b", 2)
    uses.add("a/t", "b")
    assert uses.count_for("a/s") == 3
    assert [(use.skill, use.agent, use.count) for use in uses.read()] == [
        ("a/s", "a", 1),
        ("a/s", "b", 2),
        ("a/t", "b", 1),
    ]
    (tmp_path / "skill_uses.json").write_text("nonsense")
    uses.add("a/s", "a")
    assert uses.count_for("a/s") == 1
    assert len(list(tmp_path.glob("skill_uses.json.unreadable-*"))) == 1
