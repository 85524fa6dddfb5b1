"""A skill is imported by its whole name, or by its own: mine first, then the community's, then another agent's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolyard_runtime

SOURCE = str(Path(toolyard_runtime.__file__).parent.parent)


def run(root: Path, code: str, agent: str = "me", attached: tuple[str, ...] = ()) -> str:
    program = f"from toolyard_runtime.importer import install; install()\n{code}"
    env = {"PYTHONPATH": SOURCE, "TOOLYARD_PACKAGES": str(root), "TOOLYARD_SKILLS": ":".join([agent, *attached])}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd="/", env={**os.environ, **env}, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or ran.stderr.strip().splitlines()[-1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for agent, names in {
        "me": ["mine", "both"],
        "community": ["both", "shared"],
        "other": ["both", "theirs"],
    }.items():
        for name in names:
            folder = tmp_path / "skills" / agent / name
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text(f"owner = {agent!r}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "owner"), [("mine", "me"), ("both", "me"), ("shared", "community"), ("theirs", "other")]
)
def test_the_bare_name_finds_the_nearest(root: Path, name: str, owner: str) -> None:
    assert run(root, f"from skills.{name} import owner; print(owner)") == owner


def test_the_whole_name_finds_exactly_that(root: Path) -> None:
    assert run(root, "from skills.other.both import owner; print(owner)") == "other"


def test_a_skill_of_no_one_is_missed(root: Path) -> None:
    assert run(root, "import skills.nobody") == "ModuleNotFoundError: No module named 'skills.nobody'"


def test_generated_folders_that_had_to_stand_aside_are_found(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/mine.py").write_text("")
    aside = tmp_path / ".toolyard/tools/web"
    aside.mkdir(parents=True)
    (aside / "__init__.py").write_text("place = 'aside'\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tools.mine, tools.web; print(tools.web.place)"
    assert run(tmp_path, code) == "aside"


@pytest.fixture
def attached(root: Path) -> str:
    folder = root / ".claude/skills"
    for name in ("both", "pdf-forms", "notes-only"):
        (folder / name / "scripts").mkdir(parents=True)
        (folder / name / "SKILL.md").write_text("---\nname: x\ndescription: x\n---\n")
    for name in ("both", "pdf-forms"):
        (folder / name / "__init__.py").write_text(f"owner = {name!r}\n")
    (folder / "notes-only/scripts/fill.py").write_text("owner = 'a script'\n")
    return str(folder)


@pytest.mark.parametrize(
    ("name", "owner"), [("both", "me"), ("pdf_forms", "pdf-forms"), ("notes_only.scripts.fill", "a script")]
)
def test_a_skill_of_an_attached_folder_is_found_last(root: Path, attached: str, name: str, owner: str) -> None:
    assert run(root, f"from skills.{name} import owner; print(owner)", attached=(attached,)) == owner


def test_without_a_folder_attached_none_of_its_skills_is_found(root: Path, attached: str) -> None:
    assert run(root, "import skills.pdf_forms") == "ModuleNotFoundError: No module named 'skills.pdf_forms'"


@pytest.mark.parametrize("name", ["skills.both", "skills.me.both"])
def test_a_skill_that_is_tried_out_comes_before_all_others(root: Path, tmp_path: Path, name: str) -> None:
    tried = tmp_path / "elsewhere"
    tried.mkdir()
    (tried / "__init__.py").write_text("owner = 'tried'\n")
    code = f"from toolyard_runtime.importer import try_out; try_out('me', 'both', {str(tried)!r})\n"
    assert run(root, f"{code}from {name} import owner; print(owner)") == "tried"
    assert run(root, f"{code}from skills.other.both import owner; print(owner)") == "other"


def test_the_folders_of_imported_skills_are_told_once(root: Path) -> None:
    code = (
        "from toolyard_runtime.importer import skills_used\n"
        "print(skills_used()); import skills.mine, skills.community.shared\n"
        "print([folder.split('/skills/')[1] for folder in skills_used()], skills_used())"
    )
    assert run(root, code).splitlines() == ["[]", "['community/shared', 'me/mine'] []"]
