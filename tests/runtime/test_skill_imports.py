"""A skill is imported by its whole name, or by its own: mine first, then the community's, then another agent's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolyard_runtime

SOURCE = str(Path(toolyard_runtime.__file__).parent.parent)


def run(root: Path, code: str, agent: str = "me") -> str:
    program = f"from toolyard_runtime.packages import install; install()\n{code}"
    env = {"PYTHONPATH": SOURCE, "TOOLYARD_PACKAGES": str(root), "TOOLYARD_AGENT": agent}
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
